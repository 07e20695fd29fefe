"""Programs, toy backends and partitioners for the tests of delegation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from rules_executorch.lowering.delegation.backend import (
    BackendDetails,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    register_backend,
)
from rules_executorch.lowering.delegation.partitioning import graph_modules, tag_constant_data, tag_mutated_buffer
from rules_executorch.lowering.errors import GIVEN_NAME
from torch.export import ExportedProgram


class Recorder(BackendDetails):
    """Compiles nothing; remembers every preprocess_multimethod call as {method: [node names]}."""

    calls: list[dict[str, list[list[str]]]] = []

    @staticmethod
    def preprocess(edge_program, compile_specs):  # type: ignore[no-untyped-def]
        names = ",".join(node.meta.get(GIVEN_NAME, node.name) for node in edge_program.graph.nodes)
        return PreprocessResult(names.encode())

    @classmethod
    def preprocess_multimethod(cls, edge_programs, compile_specs):  # type: ignore[no-untyped-def]
        cls.calls.append({method: [names_of(p) for p in programs] for method, programs in edge_programs.items()})
        return super().preprocess_multimethod(edge_programs, compile_specs)


class OtherRecorder(Recorder):
    calls: list[dict[str, list[list[str]]]] = []


register_backend("Recorder", Recorder)
register_backend("OtherRecorder", OtherRecorder)


def names_of(program: ExportedProgram) -> list[str]:
    return [node.meta.get(GIVEN_NAME, node.name) for node in program.graph.nodes if node.op == "call_function"]


class TagBy(Partitioner):
    """Tags what `tag_of(node)` names, constants and state along with it if asked."""

    def __init__(
        self,
        tag_of: Callable[[torch.fx.Node], str | None],
        *,
        constants: bool = True,
        state: bool = False,
        backends: Mapping[str, str] | None = None,
    ):
        self.tag_of, self.constants, self.state, self.backends = tag_of, constants, state, backends or {}

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tags = {}
        for graph_module in graph_modules(exported_program.graph_module):
            for node in graph_module.graph.nodes:
                tag = self.tag_of(node) if node.op == "call_function" else None
                if tag is not None:
                    node.meta["delegation_tag"] = tag
                    tags[tag] = DelegationSpec(self.backends.get(tag, "Recorder"))
        if self.constants:
            tag_constant_data(exported_program)
        if self.state:
            tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, tags)


def tag_named(**tags: str) -> Callable[[torch.fx.Node], str | None]:
    """Tags by node name."""
    return lambda node: tags.get(node.name)


def export(module: torch.nn.Module, *inputs: Any, dynamic_shapes: Any = None) -> ExportedProgram:
    return torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes).run_decompositions({})


def delegates_of(program: ExportedProgram) -> list[torch.fx.Node]:
    return [
        node
        for graph_module in graph_modules(program.graph_module)
        for node in graph_module.graph.nodes
        if node.target is torch.ops.higher_order.executorch_call_delegate
    ]


def run(program: ExportedProgram, *calls: tuple[Any, ...]) -> list[list[torch.Tensor]]:
    """The outputs of calls made one after the other, starting from the program's state, which stays as it is."""
    module = _with_own_state(program).module()
    return [list(torch.utils._pytree.tree_leaves(module(*copy.deepcopy(inputs)))) for inputs in calls]


def _with_own_state(program: ExportedProgram) -> ExportedProgram:
    own = copy.copy(program)
    own._state_dict = copy.deepcopy(dict(program.state_dict))
    own._constants = copy.deepcopy(dict(program.constants))
    return own


def assert_same_results(original: ExportedProgram, delegated: ExportedProgram, *calls: tuple[Any, ...]) -> None:
    torch.testing.assert_close(run(delegated, *calls), run(original, *calls))
