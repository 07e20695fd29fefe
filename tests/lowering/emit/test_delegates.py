"""Delegate calls: partitions around the kernels of the runtime, blobs and named data stored once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from rules_executorch.backends.reference import ReferencePartitioner
from rules_executorch.lowering.delegation.backend import (
    BackendDetails,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PreprocessResult,
    register_backend,
)
from rules_executorch.lowering.delegation.named_data import NamedDataStore
from rules_executorch.lowering.delegation.partitioning import partition_supported
from rules_executorch.lowering.delegation.to_backend import to_backend
from rules_executorch.lowering.emit.assemble import DELEGATE_PADDING
from rules_executorch.lowering.emit.config import EmitConfig
from rules_executorch.lowering.emit.emit import EmittedProgram, emit_program
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.format.write import pte_bytes
from support.emission import assert_same, edge
from support.modules import Apply
from support.reference_runtime import library

x = torch.randn(2, 8)


class Mixed(torch.nn.Module):
    """Parts that the reference backend takes, with operators between them that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8)

    def forward(self, a: torch.Tensor) -> Any:
        b = self.first(a).relu()
        c = torch.topk(b, 8)[0]
        d = self.second(c.cumsum(1)).tanh()
        return d, c + d


def lowered(module: torch.nn.Module, *inputs: Any, dynamic_shapes: Any = None, **options: Any) -> EmittedProgram:
    program = to_backend(edge(module, inputs, dynamic_shapes), ReferencePartitioner())
    return emit_program({"forward": program}, **options)


def test_partitions_and_kernels_together_equal_eager() -> None:
    emitted = lowered(Mixed(), x)
    module = Mixed()
    plan = emitted.program_file.program.execution_plan[0]
    assert len(plan.delegates) == 2 and {d.id for d in plan.delegates} == {"ReferenceBackend"}
    module = Mixed()
    assert_same(lowered(module, x), module, [("forward", (x,)), ("forward", (x + 1,))], backends=[library()])


def test_a_delegate_with_dynamic_sizes() -> None:
    module = Mixed()
    emitted = lowered(module, x, dynamic_shapes=({0: Dim("n", min=1, max=5)},))
    calls = [("forward", (torch.randn(n, 8),)) for n in (2, 5, 1)]
    assert_same(emitted, module, calls, backends=[library()])


def test_delegates_in_the_branches_of_a_cond() -> None:
    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            b = torch.cond(a.sum() > 0, lambda a: self.linear(a).relu(), lambda a: torch.cumsum(a * 2, 1), (a,))
            return b + a

    module = Branches()
    calls = [("forward", (x.abs(),)), ("forward", (-x.abs(),)), ("forward", (x.abs(),))]
    assert_same(lowered(module, x), module, calls, backends=[library()])


def test_blobs_may_lie_among_the_tables() -> None:
    module = Mixed()
    emitted = lowered(module, x, config=EmitConfig(extract_delegate_segments=False))
    places = [d.processed.location for d in emitted.program_file.program.execution_plan[0].delegates]
    assert places == [schema.BlobLocation.INLINE] * 2
    assert_same(emitted, module, [("forward", (x,))], backends=[library()])


def test_memory_of_delegates_is_padded() -> None:
    emitted = lowered(Mixed(), x)
    sizes = emitted.program_file.program.execution_plan[0].non_const_buffer_sizes
    assert sizes[1] == emitted.memory["forward"].planned + DELEGATE_PADDING


class Recorder(BackendDetails):
    """Compiles anything to a constant; what it stores by name is what its options say."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> PreprocessResult:
        options = {spec.key: spec.value for spec in compile_specs}
        store = NamedDataStore()
        for key, value in options.items():
            if key.startswith("data:"):
                store.add_named_data(key[len("data:") :], value, alignment=64)
            elif key.startswith("external:"):
                store.add_named_data(key[len("external:") :], value, external_tag="outside")
        return PreprocessResult(options.get("blob", b""), {0: (3, 5), 1: (4,)}, store.output())


register_backend("EmissionRecorder", Recorder)


def recorded(**options: bytes) -> torch.export.ExportedProgram:
    """A program that is one delegate, compiled with the options."""
    specs = [CompileSpec(key, value) for key, value in options.items()]
    return to_backend(edge(Apply(lambda a: a + 1), (x,)), DelegationSpec("EmissionRecorder", specs))


def test_equal_blobs_are_stored_once_over_all_methods() -> None:
    emitted = emit_program({"a": recorded(blob=b"same"), "b": recorded(blob=b"same"), "c": recorded(blob=b"other")})
    program = read_pte(pte_bytes(emitted))
    assert len(program.segments) == 2
    blobs = [bytes(program.delegate_blob(plan.delegates[0])) for plan in program.program.execution_plan]
    assert blobs == [b"same", b"same", b"other"]


def test_an_empty_blob_is_stored_too() -> None:
    program = read_pte(pte_bytes(emit_program({"a": recorded()})))
    assert bytes(program.delegate_blob(program.program.execution_plan[0].delegates[0])) == b""


def test_named_data_of_all_delegates_are_merged() -> None:
    a = recorded(**{"data:k": b"shared", "data:l": b"x"})
    b = recorded(**{"data:k": b"shared", "data:m": b"shared"})
    emitted = emit_program({"a": a, "b": b})
    program = read_pte(pte_bytes(emitted))
    assert {entry.key: bytes(program.named_data(entry.key)) for entry in program.program.named_data or ()} == {
        "k": b"shared",
        "l": b"x",
        "m": b"shared",
    }
    assert len(program.segments) == 2 and all(segment.offset % 128 == 0 for segment in program.segments)


class Tied(torch.nn.Module):
    """A table that a kernel looks up in, and a delegate multiplies with."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(300, 32)
        self.bias = torch.nn.Parameter(torch.randn(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.table(tokens).cumsum(1)
        return torch.nn.functional.linear(found, self.table.weight) + self.bias.cumsum(0)[0]


def test_named_data_that_are_a_constant_too_are_stored_once() -> None:
    tokens = torch.tensor([3, 299])
    module = Tied().eval()

    def supported(node: torch.fx.Node) -> bool:
        return node.target is torch.ops.aten.linear.default

    class Products(Partitioner):
        def partition(self, exported_program: Any) -> Any:
            spec = DelegationSpec("ReferenceBackend")
            return partition_supported(exported_program, supported, spec, share_constants=True)

    emitted = emit_program({"forward": to_backend(edge(module, (tokens,)), Products())})
    pte = pte_bytes(emitted)
    table = 300 * 32 * 4
    assert table < len(pte) < 1.1 * table + 4096
    program = read_pte(pte)
    named = [bytes(program.named_data(entry.key)) for entry in program.program.named_data or ()]
    assert any(len(data) == table for data in named)
    assert pte_bytes(program) == pte
    assert_same(emitted, module, [("forward", (tokens,))], backends=[library()], atol=1e-4)


def test_named_data_that_conflict_are_an_error() -> None:
    with pytest.raises(LoweringError, match="'k'"):
        emit_program({"a": recorded(**{"data:k": b"one"}), "b": recorded(**{"data:k": b"two"})})


def test_named_data_may_lie_outside() -> None:
    emitted = emit_program({"a": recorded(**{"external:k": b"outside"})})
    data = emitted.external_data["outside"]
    assert bytes(data.buffers[data.entries["k"].buffer_index]) == b"outside"


def test_a_delegate_call_leads_back_to_its_nodes() -> None:
    emitted = emit_program({"a": recorded(blob=b"x")})
    assert emitted.delegate_map == {"a": {0: {"name": "EmissionRecorder", "delegate_map": {0: (3, 5), 1: (4,)}}}}
    assert emitted.debug_handle_map == {"a": {0: (3, 4, 5)}}


def test_compile_specs_are_stored() -> None:
    program = read_pte(pte_bytes(emit_program({"a": recorded(blob=b"x", level=b"\x00\xff")})))
    specs = program.program.execution_plan[0].delegates[0].compile_specs
    assert [(spec.key, bytes(spec.value)) for spec in specs or ()] == [("blob", b"x"), ("level", b"\x00\xff")]
