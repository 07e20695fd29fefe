"""Chains of views and permutations become one: only the last of them moves or renames anything."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten

_PERMUTATIONS = (aten.permute_copy.default, aten.transpose_copy.int, aten.t_copy.default)


def collapse_chains(graph: Graph) -> None:
    """Rewrite a view of a view, and a permutation of a permutation, to one of the first operand."""
    for node in graph.find_nodes(op="call_function", target=aten.view_copy.default):
        source = node.args[0]
        if source.target is aten.view_copy.default:
            node.update_arg(0, source.args[0])
    for node in list(graph.nodes):
        if node.target in _PERMUTATIONS:
            _collapse_permutation(graph, node)


def permutation(node: Any) -> list[int] | None:
    """Which dimension of its operand each dimension of `node` is, if `node` is a permutation."""
    if not isinstance(node, Node) or node.target not in _PERMUTATIONS:
        return None
    rank = node.meta["val"].dim()
    dims = list(range(rank))
    if node.target is aten.permute_copy.default:
        return [dim % rank for dim in node.args[1]]
    if rank:
        swapped = (0, rank - 1) if node.target is aten.t_copy.default else node.args[1:3]
        first, second = (dim % rank for dim in swapped)
        dims[first], dims[second] = dims[second], dims[first]
    return dims


def _collapse_permutation(graph: Graph, node: Node) -> None:
    inner = permutation(node.args[0])
    if inner is None:
        return
    dims = [inner[dim] for dim in permutation(node) or ()]
    source = node.args[0].args[0]
    if dims == list(range(len(dims))):
        node.replace_all_uses_with(source)
        graph.erase_node(node)
    else:
        node.target = aten.permute_copy.default
        node.args = (source, dims)
