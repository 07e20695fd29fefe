"""Bounds of a clamp become bounds of the node before it."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Node, Value

_BOUNDED = frozenset(
    {"FullyConnected", "Conv2d", "DepthwiseConv2d", "ConvTranspose2d", "MaxPooling2d", "AvgPooling2d",
     "Add", "Subtract", "Multiply", "Div", "Clamp"}
)  # fmt: skip


def fuse_activations(graph: Graph) -> Graph:
    """Drop each clamp of a value that nothing else reads, if the node that makes the value can clamp.

    A reshape between the two stays where it is.
    """
    uses = graph.use_counts()
    nodes: list[Node] = []
    position: dict[Value, int] = {}  # of the node that makes a value, in `nodes`
    for node in graph.nodes:
        path = _path(node, nodes, position, uses) if node.kind == "Clamp" else []
        if path and _fits(nodes[path[-1]], node):
            before = nodes[path[-1]]
            low, high = (min(max(bound, before.low), before.high) for bound in (node.low, node.high))
            nodes[path[-1]] = replace(before, low=low, high=high)
            nodes[path[0]] = replace(nodes[path[0]], results=node.results)
            position[node.result] = path[0]
        else:
            position.update((result, len(nodes)) for result in node.results)
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _path(clamp: Node, nodes: list[Node], position: dict[Value, int], uses: dict[Value, int]) -> list[int]:
    """Positions of the reshapes before a clamp, last first, and of the node before these, if all is for the clamp."""
    path: list[int] = []
    value = clamp.operands[0]
    while value is not None and value in position and uses[value] == 1:
        path.append(position[value])
        if nodes[path[-1]].kind != "StaticReshape":
            return path
        value = nodes[path[-1]].operands[0]
    return []


def _fits(before: Node, clamp: Node) -> bool:
    overlap = max(before.low, clamp.low) < min(before.high, clamp.high)  # XNNPACK wants a proper range
    return before.kind in _BOUNDED and before.result.quantization == clamp.result.quantization and overlap
