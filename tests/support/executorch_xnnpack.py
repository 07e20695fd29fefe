"""What ExecuTorch's own XNNPACK partitioner leaves outside of a program, for comparison with this project's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering import to_edge_transform_and_lower

from . import zoo


class Named(torch.nn.Module):
    """The model as an attribute: ExecuTorch's batch norm pass fails where names of weights begin with a digit."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any) -> Any:
        return self.model(*inputs)


def exported(name: str) -> torch.export.ExportedProgram:
    """A model of the zoo."""
    case = zoo.make(name)
    shapes = case.dynamic_shapes
    if shapes is not None:
        return torch.export.export(case.module, case.inputs, dynamic_shapes=shapes)
    return torch.export.export(Named(case.module).eval(), case.inputs)


def by_ours(name: str, *, cost_rule: bool) -> tuple[list[str], int]:
    """The operators outside of this project's partitions, and the number of partitions."""
    partitioner = XnnpackPartitioner(cost_rule=cost_rule)
    return _outside(to_edge_transform_and_lower(exported(name), partitioner=[partitioner]).exported_program())


def by_theirs(name: str) -> tuple[list[str], int]:
    """The same of ExecuTorch's.

    Raises:
        Exception: whatever ExecuTorch raises of models that it cannot lower.
    """
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner as Theirs
    from executorch.exir import to_edge_transform_and_lower as lower

    with torch.no_grad():
        return _outside(lower(exported(name), partitioner=[Theirs()]).exported_program())


def _outside(program: torch.export.ExportedProgram) -> tuple[list[str], int]:
    partitions = sum(hasattr(module, "original_module") for module in program.graph_module.modules())
    return [name for module in _graphs(program.graph_module) for name in _operators(module)], partitions


def _graphs(module: torch.nn.Module) -> Iterator[torch.fx.GraphModule]:
    """A graph and the bodies of its control flow, but not those of delegates."""
    if isinstance(module, torch.fx.GraphModule):
        yield module
        for child in module.children():
            yield from _graphs(child)


def _operators(module: torch.fx.GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is not None and "::" in schema.name and not schema.name.startswith("aten::sym_"):
            yield schema.name
