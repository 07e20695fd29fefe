"""Bounds of a clamp become bounds of the node before it."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Node, Value

_BOUNDED = frozenset(
    {"FullyConnected", "Conv2d", "DepthwiseConv2d", "ConvTranspose2d", "MaxPooling2d", "AvgPooling2d",
     "Add", "Subtract", "Multiply", "Div", "Clamp"}
)  # fmt: skip


def fuse_activations(graph: Graph) -> Graph:
    """Drop each clamp of a value that nothing else reads, if the node that makes the value can clamp."""
    uses = graph.use_counts()
    nodes: list[Node] = []
    position: dict[Value, int] = {}  # of the node that makes a value, in `nodes`
    for node in graph.nodes:
        index = position.get(node.operands[0]) if node.kind == "Clamp" and node.operands[0] is not None else None
        if index is not None and uses[node.operands[0]] == 1 and _fits(nodes[index], node):  # type: ignore[index]
            before = nodes[index]
            low, high = (min(max(bound, before.low), before.high) for bound in (node.low, node.high))
            nodes[index] = replace(before, results=node.results, low=low, high=high)
            position[node.result] = index
        else:
            position.update((result, len(nodes)) for result in node.results)
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _fits(before: Node, clamp: Node) -> bool:
    overlap = max(before.low, clamp.low) < min(before.high, clamp.high)  # XNNPACK wants a proper range
    return before.kind in _BOUNDED and before.result.quantization == clamp.result.quantization and overlap
