"""The same graph in fewer nodes: chains of views become one view, and what is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .builder import reshape_layout
from .graph import Graph, Node, Value, expressions, same_sizes
from .schema import TRANSPOSE_B


def simplify(graph: Graph) -> Graph:
    """One walk over the nodes, each seeing its operands simplified; then what nothing reads is dropped."""
    walk = _Walk(graph)
    for node in graph.nodes:
        walk.visit(node)
    outputs = tuple(walk.now(value) for value in graph.outputs)
    return remove_dead(replace(graph, outputs=outputs, nodes=tuple(walk.nodes)))


def remove_dead(graph: Graph) -> Graph:
    """Without the nodes whose results nothing reads, and without the inputs that nothing reads."""
    live = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if any(result in live for result in node.results):
            kept.append(node)
            live.update(operand for operand in node.operands if operand is not None)
    inputs = tuple(value if value in live else None for value in graph.inputs)
    return replace(graph, inputs=inputs, nodes=tuple(reversed(kept)))


class _Walk:
    def __init__(self, graph: Graph):
        self.nodes: list[Node] = []
        self._producer: dict[Value, Node] = {}
        self._now: dict[Value, Value] = {}
        self._known: dict[Any, tuple[Value, ...]] = {}

    def now(self, value: Value) -> Value:
        """What stands for a value of the old graph."""
        return self._now.get(value, value)

    def visit(self, node: Node) -> None:
        node = node.with_operands(None if v is None else self.now(v) for v in node.operands)
        node = self._simpler(node)
        if node.kind == "Copy":
            self._now[node.result] = node.operands[0]
            return
        key = _key(node)
        if key in self._known:
            self._now.update(zip(node.results, self._known[key]))
            return
        self._known[key] = node.results
        self.nodes.append(node)
        self._producer.update((result, node) for result in node.results)

    def _simpler(self, node: Node) -> Node:
        rule = _RULES.get(node.kind)
        before = self._producer.get(node.operands[0]) if node.operands[0] is not None else None
        return rule(self, node, before) if rule else node

    def _transpose(self, node: Node, before: Node | None) -> Node:
        order = tuple(node.attributes["perm"])
        if before is not None and before.kind == "StaticTranspose":
            order = tuple(before.attributes["perm"][d] for d in order)
            node = replace(node, operands=before.operands, attributes={"perm": order})
        return replace(node, kind="Copy", attributes={}) if order == tuple(range(len(order))) else node

    def _reshape(self, node: Node, before: Node | None) -> Node:
        if before is not None and before.kind == "StaticReshape":
            node = node.with_operands(before.operands)
            node = replace(node, layout=reshape_layout(node.operands[0].sizes, node.result.sizes))
        return replace(node, kind="Copy") if same_sizes(node.operands[0].sizes, node.result.sizes) else node

    def _convert(self, node: Node, before: Node | None) -> Node:
        """Integers that become floats, and the same integers again, stay what they are."""
        if before is None or before.kind != "Convert" or node.result.quantization is None:
            return node
        source = before.operands[0]
        back = source.dtype == node.result.dtype and source.quantization == node.result.quantization
        return replace(node, kind="Copy", operands=(source,)) if back and not source.quantization.is_dynamic else node

    def _product(self, node: Node, before: Node | None) -> Node:
        right = self._producer.get(node.operands[1])
        if right is None or right.kind != "StaticTranspose":
            return node
        rank = right.result.rank
        if tuple(right.attributes["perm"]) != (*range(rank - 2), rank - 1, rank - 2):
            return node
        flags = node.attributes.get("flags", 0) ^ TRANSPOSE_B
        return replace(node, operands=(node.operands[0], right.operands[0]), attributes={"flags": flags})


_RULES = {
    "StaticTranspose": _Walk._transpose,
    "StaticReshape": _Walk._reshape,
    "BatchMatrixMultiply": _Walk._product,
    "Convert": _Walk._convert,
}


def reshape_unit_transposes(graph: Graph) -> Graph:
    """Transposes that only move sizes of one leave the elements where they are: reshapes, then, which cost nothing."""
    nodes = tuple(_as_reshape(node) for node in graph.nodes)
    return replace(graph, nodes=nodes) if nodes != graph.nodes else graph


def _as_reshape(node: Node) -> Node:
    if node.kind != "StaticTranspose" or sum(not isinstance(s, int) for s in node.result.sizes) > 1:
        return node
    sizes = node.operands[0].sizes
    moved = [d for d in node.attributes["perm"] if not (isinstance(sizes[d], int) and sizes[d] == 1)]
    if moved != sorted(moved):
        return node
    return replace(node, kind="StaticReshape", attributes={}, layout=reshape_layout(sizes, node.result.sizes))


def _key(node: Node) -> Any:
    """Equal for nodes that compute the same."""
    attributes = tuple(sorted((name, _hashable(value)) for name, value in node.attributes.items()))
    results = tuple((result.dtype, expressions(result.sizes)) for result in node.results)
    return node.kind, node.layout, node.operands, attributes, node.low, node.high, results, node.result.quantization


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) else value
