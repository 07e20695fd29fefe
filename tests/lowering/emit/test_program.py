"""What the methods of a program share, and what is known beside the file."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.emit.emit import emit_program
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.format.write import pte_bytes
from support.children import python_path
from support.emission import assert_same, check, edge, emit
from support.modules import Apply
from support.official_runtime import run_methods

x = torch.randn(2, 64)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)
        self.second.weight = torch.nn.Parameter(self.first.weight.detach().clone())  # equal, not the same
        self.unused = torch.nn.Parameter(torch.randn(1000))

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(a).relu())


def test_equal_constants_are_stored_once_over_all_methods() -> None:
    module = Tied()
    one = emit_program({"a": edge(module, (x,))})
    two = emit_program({"a": edge(module, (x,)), "b": edge(module, (x[:1],))})
    assert len(one.program_file.segments) == len(two.program_file.segments) == 1
    assert two.program_file.segments[0].size == one.program_file.segments[0].size == 64 * 64 * 4 + 2 * 64 * 4
    assert_same(two, module, [("a", (x,)), ("b", (x[:1],))], methods={"a": "forward", "b": "forward"})


def test_constants_are_not_copied_into_the_program() -> None:
    module = Tied()
    emitted = emit(module, (x,))
    (segment,) = emitted.program_file.segments
    weights = [data for _, data in segment.parts if len(data) == 64 * 64 * 4]
    with torch.no_grad():
        before = bytes(weights[0][:4])
        module.first.weight.view(-1)[0] += 1
        assert bytes(weights[0][:4]) != before


@pytest.mark.parametrize("others", [[], [torch.ones(4)]])
def test_constants_without_elements(others: list[torch.Tensor]) -> None:
    constants = [*others, torch.zeros(0), torch.zeros(0, 3, dtype=torch.int64)]
    check(Apply(lambda a: (a, *(constant.clone() for constant in constants), torch.linspace(0, 1, 0))), (x,), (x,))


VALUES: dict[str, Any] = {
    "number": 3,
    "float": -0.5,
    "text": "hello",
    "flag": True,
    "nothing": None,
    "tensor": torch.arange(6.0).view(2, 3),
    "nested": {"a": [1, 2.5], "b": (torch.ones(2), "x")},
    "dtype": torch.float32,
}


@pytest.mark.parametrize("name", VALUES)
def test_constant_methods_return_their_value(name: str) -> None:
    emitted = emit_program({"forward": edge(Apply(lambda a: a + 1), (x,))}, {"constant": VALUES[name]})
    (outputs,) = run_methods(pte_bytes(emitted), [("constant", [])])
    expected = torch.utils._pytree.tree_leaves(VALUES[name], is_leaf=lambda leaf: leaf is None)
    expected = [6 if leaf is torch.float32 else leaf for leaf in expected]
    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected):
        assert torch.equal(output, wanted) if isinstance(wanted, torch.Tensor) else output == wanted


def test_a_constant_method_of_another_type_is_refused() -> None:
    with pytest.raises(LoweringError, match="complex"):
        emit_program({}, {"c": 1j})


def test_a_name_is_a_method_or_a_constant_method() -> None:
    with pytest.raises(LoweringError, match="both"):
        emit_program({"f": edge(Apply(lambda a: a + 1), (x,))}, {"f": 1})


def test_all_constants_can_be_outside() -> None:
    emitted = check(Tied(), (x,), config=EmitConfig(external_constants=True))
    (tag,) = emitted.external_data
    assert set(emitted.external_data[tag].entries) == {"first.weight", "first.bias", "second.weight", "second.bias"}
    assert not emitted.program_file.segments


def test_constants_can_be_outside_by_tag() -> None:
    config = EmitConfig(external_constants=lambda node: "biases" if "bias" in node.name else None)
    emitted = check(Tied(), (x,), config=config)
    assert set(emitted.external_data["biases"].entries) == {"first.bias", "second.bias"}
    assert emitted.program_file.segments[0].size == 64 * 64 * 4


def test_an_external_constant_that_is_viewed_or_returned_is_right() -> None:
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(4, 6))

        def forward(self, a: torch.Tensor) -> Any:
            return self.table.view(-1) * a, self.table, self.table[1] + a

    check(Table(), (torch.tensor(2.0),), config=EmitConfig(external_constants=True))


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("outputs", [True, False])
def test_inputs_and_outputs_are_planned_as_asked(inputs: bool, outputs: bool) -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(3))

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            c = a + b
            return c, a, c, self.table, c.view(-1), torch.topk(b, 1)[0], 5, None

    config = EmitConfig(memory=MemoryConfig(alloc_graph_input=inputs, alloc_graph_output=outputs))
    run = (torch.randn(1, 3), torch.randn(1, 3))
    emitted = emit(Odd(), run, config=config)
    plan = emitted.program_file.program.execution_plan[0]
    places = [plan.values[index].allocation_info is not None for index in plan.inputs]
    assert places == [inputs, inputs]
    module = Odd()
    module.table = torch.zeros(3)
    (results,) = run_methods(pte_bytes(emitted), [("forward", run), ("forward", run)])[1:]
    total = run[0] + run[1]
    expected = [total, run[0], total, None, total.view(-1), torch.topk(run[1], 1)[0], 5, None]
    for index, (result, wanted) in enumerate(zip(results, expected)):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(result, wanted)
        elif index != 3:
            assert result == wanted


def test_instructions_lead_back_to_nodes() -> None:
    program = edge(Apply(lambda a: (a.relu() + 1).neg()), (x,))
    for handle, node in enumerate(node for node in program.graph.nodes if node.op == "call_function"):
        node.meta["debug_handle"] = 10 + handle
    emitted = emit_program({"forward": program})
    assert emitted.debug_handle_map == {"forward": {0: 10, 1: 11, 2: 12}}
    assert emitted.instruction_id_to_num_outs_map == {"forward": {0: 1, 1: 1, 2: 1}}


def test_source_lines_are_stored_on_request() -> None:
    emitted = emit(Apply(lambda a: a.relu()), (x,), config=EmitConfig(emit_stacktrace=True))
    (frames,) = emitted.program_file.program.execution_plan[0].chains[0].stacktrace
    assert frames.items[-1].context == "return self.function(*inputs)" and frames.items[-1].lineno > 0
    assert read_pte(pte_bytes(emitted)) == read_pte(pte_bytes(emitted))
    run_methods(pte_bytes(emitted), [("forward", [x])])


def test_methods_are_in_the_order_of_their_names_however_they_were_given() -> None:
    a, b = edge(Apply(lambda a: a + 1), (x,)), edge(Apply(lambda a: a * 2), (x,))
    assert pte_bytes(emit_program({"a": a, "b": b})) == pte_bytes(emit_program({"b": b, "a": a}))


_PROGRAM = """
import hashlib, torch
from support import zoo
from rules_executorch.backends.reference import ReferencePartitioner
from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering import to_edge_transform_and_lower
programs = {}
for name in ("transformer_encoder", "decoder_with_kv_cache"):
    case = zoo.make(name)
    programs[name] = torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes)
partitioners = {"transformer_encoder": [XnnpackPartitioner(), ReferencePartitioner()]}
pte = to_edge_transform_and_lower(programs, partitioner=partitioners, constant_methods={"a": 1}).to_executorch().buffer
print(hashlib.sha256(pte).hexdigest())
"""


def test_the_same_programs_give_the_same_bytes_in_processes_with_other_hash_seeds() -> None:
    digests = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": python_path()}
        command = [sys.executable, "-c", _PROGRAM]
        digests.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(digests) == 1


