"""ExportedProgram as torch.export gives it → edge program, which the target runtime can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.decomp_utils import CustomDecompTable
from torch.fx import Node

from ..operators import OperatorSet, stock


def to_edge_program(
    program: ExportedProgram,
    *,
    preserve_ops: Sequence[OpOverload] = (),
    keep: Callable[[Node], bool] | None = None,
    operators: OperatorSet = stock,
) -> ExportedProgram:
    """`program` functional, over operators that `operators` has kernels for; `program` is left as it is."""
    table = CustomDecompTable()
    for op in list(table.keys()):
        if op in preserve_ops or operators.kernel(op) is not None:
            table.pop(op)
    edge = program.run_decompositions(table)
    graph = edge.graph_module.graph
    for number, node in enumerate(list(graph.nodes)):
        if node.op != "call_function":
            continue
        node.meta["debug_handle"] = number
        if isinstance(node.target, OpOverload):
            name = node.target._schema.name
            if name.startswith(("aten::_assert", "aten::sym_constrain")):
                graph.erase_node(node)
                continue
            copy = getattr(torch.ops.aten, name.partition("::")[2] + "_copy", None)
            if copy is not None and any(r.alias_info for r in node.target._schema.returns):
                node.target = getattr(copy, node.target._overloadname)
    graph.eliminate_dead_code()
    return edge
