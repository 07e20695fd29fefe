"""Memory that a node may use beside what is in use then, against a count of what is alive."""

from __future__ import annotations

import operator

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Graph, Node

from rules_executorch.lowering.emit.spare import spare_memory

aten = torch.ops.aten


def bytes_of(value: torch.Tensor, node: Node) -> int:
    return value.numel()


def node(graph: Graph, target: object, args: tuple, *sizes: int) -> Node:
    made = graph.call_function(target, args)
    values = [torch.empty(size, device="meta") for size in sizes]
    made.meta["val"] = values[0] if len(values) == 1 else tuple(values)
    return made


def test_views_and_items_have_no_memory_and_keep_their_operands() -> None:
    graph = Graph()
    a = graph.placeholder("a")
    a.meta["val"] = torch.empty(10, device="meta")
    pair = node(graph, aten.topk.default, (a, 3), 4, 100)
    first = node(graph, operator.getitem, (pair, 0), 4)
    view = node(graph, aten.view_copy.default, (first, [4]), 4)
    b = node(graph, aten.relu.default, (a,), 10)
    c = node(graph, aten.add.Tensor, (b, view), 10)
    graph.output((c,))
    spare = spare_memory(graph, bytes_of)
    in_use = {a: 10, pair: 114, first: 14, view: 14, b: 24, c: 24}
    assert {n: 114 - spare.bytes[n] for n in in_use} == in_use
    assert spare.is_last_use(a, b) and spare.is_last_use(first, c) and not spare.is_last_use(b, b)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=30))
def test_agrees_with_a_count_at_every_node(steps: list[tuple[int, int, int]]) -> None:
    graph = Graph()
    nodes = [graph.placeholder("a")]
    nodes[0].meta["val"] = torch.empty(5, device="meta")
    for left, right, size in steps:
        nodes.append(node(graph, aten.add.Tensor, (nodes[left % len(nodes)], nodes[right % len(nodes)]), size))
    graph.output((nodes[-1],))
    position = {n: index for index, n in enumerate(graph.nodes)}
    last = {n: max([position[n], *(position[user] for user in n.users)]) for n in nodes}
    in_use = [sum(n.meta["val"].numel() for n in nodes if position[n] <= at <= last[n]) for at in range(len(position))]
    spare = spare_memory(graph, bytes_of)
    assert [spare.bytes[n] for n in graph.nodes] == [max(in_use) - bytes_now for bytes_now in in_use]
