"""The engine's programs get their Python code when they are called, and then run as torch's own do."""

from __future__ import annotations

import copy

import pytest
import torch
from support.modules import Apply
from torch.export import ExportedProgram
from torch.fx import GraphModule

from rules_executorch.lowering import to_edge
from rules_executorch.lowering.delegation.graph_copy import copy_program

X = torch.tensor([[1.0, -2.0, 3.0]])


def edge_program() -> ExportedProgram:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.relu() + 1, lambda x: x - 1, (x,))

    return to_edge(torch.export.export(Apply(branches), (X,))).exported_program()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[GraphModule]:
    """The graph modules that torch compiles."""
    modules: list[GraphModule] = []
    original = GraphModule.recompile

    def recompile(module: GraphModule) -> object:
        modules.append(module)
        return original(module)

    monkeypatch.setattr(GraphModule, "recompile", recompile)
    return modules


def test_a_copy_is_compiled_when_it_is_called(compiled: list[GraphModule]) -> None:
    program = edge_program()
    compiled.clear()
    copied = copy_program(program)
    assert not compiled
    torch.testing.assert_close(copied.graph_module(X), (torch.tensor([[2.0, 1.0, 4.0]]),))
    torch.testing.assert_close(copied.graph_module(-X), (torch.tensor([[-2.0, 1.0, -4.0]]),))
    assert compiled.count(copied.graph_module) == 1


def test_what_is_changed_before_the_first_call_counts() -> None:
    program = copy_program(edge_program())
    output = program.graph.output_node()
    (result,) = output.args[0]
    with program.graph.inserting_before(output):
        output.args = ((program.graph.call_function(torch.ops.aten.neg.default, (result,)),),)
    torch.testing.assert_close(program.graph_module(X), (torch.tensor([[-2.0, -1.0, -4.0]]),))


@pytest.mark.parametrize("of", [lambda p: p.module(), lambda p: copy.deepcopy(p).module()], ids=["itself", "deep copy"])
def test_its_module_runs(of) -> None:
    torch.testing.assert_close(of(edge_program())(X), torch.tensor([[2.0, 1.0, 4.0]]))


def test_programs_that_torch_makes_stay_as_they_are(compiled: list[GraphModule]) -> None:
    edge_program()
    compiled.clear()
    program = torch.export.export(Apply(torch.relu), (X,))
    assert program.graph_module in compiled
