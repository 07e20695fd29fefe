"""Delegated programs against ExecuTorch's own lowering with the same partitions: what the file says of delegates."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from rules_executorch import lowering
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.read import read_pte
from torch import nn

exir = pytest.importorskip("executorch.exir")
backend_details = pytest.importorskip("executorch.exir.backend.backend_details")
compile_spec_schema = pytest.importorskip("executorch.exir.backend.compile_spec_schema")
their_partitioner = pytest.importorskip("executorch.exir.backend.partitioner")
their_utils = pytest.importorskip("executorch.exir.backend.utils")
their_store = pytest.importorskip("executorch.exir._serialize._named_data_store")

DELEGATED = ("tanh", "sigmoid", "mul")


def content(program: torch.export.ExportedProgram, store: Any) -> bytes:
    """A blob that says what was delegated; beside it, named data that all delegates have."""
    store.add_named_data("common", b"common bytes")
    calls = [str(node.target).rpartition("aten.")[2] for node in program.graph.nodes if node.op == "call_function"]
    return ",".join(call.partition(".")[0] for call in calls).encode()


class OracleBackend(backend_details.BackendDetails):
    @staticmethod
    def preprocess(edge_program, compile_specs):  # type: ignore[no-untyped-def]
        store = their_store.NamedDataStore()
        blob = content(edge_program, store)
        return backend_details.PreprocessResult(blob, data_store_output=store.get_named_data_store_output())


class OurBackend(lowering.BackendDetails):
    @staticmethod
    def preprocess(program, compile_specs):  # type: ignore[no-untyped-def]
        store = lowering.NamedDataStore()
        blob = content(program, store)
        return lowering.PreprocessResult(blob, data_store_output=store.get_named_data_store_output())


lowering.register_backend("OracleBackend", OurBackend)


def tag(program: torch.export.ExportedProgram) -> list[str]:
    """Each run of delegated nodes is a partition, in the bodies of control flow as well."""
    tags: list[str] = []
    for module in program.graph_module.modules():
        running = False
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function":
                delegated = any(name in node.name for name in DELEGATED)
                if delegated and not running:
                    tags.append(f"run_{len(tags)}")
                if delegated:
                    node.meta["delegation_tag"] = tags[-1]
                running = delegated
    return tags


class Theirs(their_partitioner.Partitioner):
    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        specs = [compile_spec_schema.CompileSpec("speed", b"high")]
        spec = their_partitioner.DelegationSpec("OracleBackend", specs)
        tags = tag(exported_program)
        their_utils.tag_constant_data(exported_program)
        return their_partitioner.PartitionResult(exported_program, dict.fromkeys(tags, spec))


class Ours(lowering.Partitioner):
    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        spec = lowering.DelegationSpec("OracleBackend", [lowering.CompileSpec("speed", b"high")])
        tags = tag(exported_program)
        lowering.tag_constant_data(exported_program)
        return lowering.PartitionResult(exported_program, dict.fromkeys(tags, spec))


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gated = torch.tanh(x) * torch.sigmoid(x)
        hidden = self.layer(gated)
        return torch.tanh(hidden) * self.scale, hidden


class Chain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.sigmoid(torch.tanh(x)) + 1
        return x


class Shared(nn.Module):
    """Two partitions use a constant that nothing else uses."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.tanh(x) * self.scale + 1) * self.scale


class Stateful(nn.Module):
    """State beside delegates. (Where these read it, or make its new value, ExecuTorch fails or drops them.)"""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.copy_(self.total + torch.tanh(x))
        return x + torch.sigmoid(x + 1)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: torch.tanh(x) + 1, lambda x: torch.sigmoid(x) - x, (x,))
        return torch.tanh(y)


MODELS = {"gate": Gate, "chain": Chain, "shared": Shared, "stateful": Stateful, "branches": Branches, "dynamic": Gate}


@functools.cache
def programs(name: str) -> tuple[ProgramFile, ProgramFile]:
    torch.manual_seed(0)
    dynamic = ({0: torch.export.Dim("batch", min=1, max=8)},) if name == "dynamic" else None
    exported = torch.export.export(MODELS[name](), (torch.randn(2, 4),), dynamic_shapes=dynamic)
    config = exir.EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[torch.ops.aten.linear.default])
    theirs = exir.to_edge(exported, compile_config=config).to_backend(Theirs()).to_executorch()
    ours = lowering.to_edge(exported).to_backend(Ours()).to_executorch()
    return read_pte(ours.buffer), read_pte(theirs.buffer)


def delegates(file: ProgramFile) -> list[tuple[str, bytes, list[tuple[str, bytes]]]]:
    plan = file.program.execution_plan[0]
    return [
        (each.id, bytes(file.delegate_blob(each)), [(spec.key, bytes(spec.value)) for spec in each.compile_specs])
        for each in plan.delegates
    ]


@pytest.mark.parametrize("name", MODELS)
def test_delegates_are_the_same_with_what_they_are_given(name: str) -> None:
    ours, theirs = programs(name)
    assert delegates(ours) == delegates(theirs) and len(delegates(ours)) > 1


@pytest.mark.parametrize("name", MODELS)
def test_calls_of_delegates_take_and_give_the_same_tensors(name: str) -> None:
    def calls(file: ProgramFile) -> list[list[Any]]:
        plan = file.program.execution_plan[0]
        found = [each for each in plan.chains[0].instructions if isinstance(each, schema.DelegateCall)]
        return [[(plan.values[arg].scalar_type, plan.values[arg].sizes) for arg in call.args] for call in found]

    ours, theirs = programs(name)
    assert calls(ours) == calls(theirs)


@pytest.mark.parametrize("name", MODELS)
def test_named_data_are_the_same(name: str) -> None:
    def named(file: ProgramFile) -> dict[str, int]:
        return {each.key: file.program.segments[each.segment_index].size for each in file.program.named_data}

    ours, theirs = programs(name)
    assert named(ours) == named(theirs) == {"common": len(b"common bytes")}


@pytest.mark.parametrize("name", MODELS)
def test_inputs_outputs_and_containers_are_the_same(name: str) -> None:
    def border(file: ProgramFile) -> Any:
        plan = file.program.execution_plan[0]
        tensors = [plan.values[index] for index in (*plan.inputs, *plan.outputs)]
        return [(t.scalar_type, t.sizes, t.dim_order) for t in tensors], plan.container_meta_type

    ours, theirs = programs(name)
    assert border(ours) == border(theirs)
