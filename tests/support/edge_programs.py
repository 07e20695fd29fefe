"""From a function to its edge program in one call, and what is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.edge.verify import verify_edge_program


class Function(torch.nn.Module):
    """A module around a function of (self, *inputs), with buffers."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor):
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def edge_of(
    module: torch.nn.Module | Callable[..., Any],
    *inputs: torch.Tensor,
    dynamic_shapes: Any = None,
    verify: bool = True,
    **options: Any,
) -> ExportedProgram:
    """The verified edge program of a module in eval mode, or of a function of its inputs."""
    if not isinstance(module, torch.nn.Module):
        function = module
        module = Function(lambda _, *args: function(*args))
    if dynamic_shapes is not None and isinstance(module, Function):
        dynamic_shapes = (tuple(dynamic_shapes),)  # one entry for *inputs
    with torch.no_grad():
        exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)
    edge = to_edge_program(exported, **options)
    if verify:
        verify_edge_program(edge)
    return edge


def calls(program: ExportedProgram) -> list[str]:
    """What the program calls, in order, without getitem: `add.Tensor`, `mul`, `cond`."""
    names = [name_of(node) for node in program.graph.nodes if node.op == "call_function"]
    return [name for name in names if name != "getitem"]


def name_of(node: Node) -> str:
    """The name of what a node calls, without its namespace."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target).partition(".")[2]
    return node.target.__name__
