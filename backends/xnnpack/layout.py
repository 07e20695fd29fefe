"""Which values are channels-last in memory: a choice with as few transposes as the whole partition allows.

XNNPACK's convolutions and pools work on channels-last images; most other nodes work in any layout
that all their operands have. The choice is a minimum cut. Nodes are vertices, channels-last is the
source's side, the default order the sink's, and each value is a net of the node that makes it and
those that read it: if these differ, it is transposed, once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any


from .graph import Graph, Layout, Node, Value
from .mincut import Network

_LAST, _DEFAULT = "channels-last", "default"
_TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
_TO_DEFAULT = {3: (0, 2, 1), 4: (0, 3, 1, 2)}
_PERMUTED_ATTRIBUTES = ("offsets", "pre_paddings", "post_paddings")


def assign_layouts(graph: Graph) -> Graph:
    """The graph with every value's sizes in the order of memory, and the transposes that are needed."""
    last = _channels_last_nodes(graph)
    return _Rewriter(graph, last).rewrite() if last or any(graph.output_channels_last) else graph


def _channels_last_nodes(graph: Graph) -> set[Any]:
    """The nodes (and inputs) whose results are channels-last."""
    inputs = {v for v, last in zip(graph.inputs, graph.input_channels_last) if v is not None and last}
    if not inputs and not any(node.layout is Layout.CHANNELS_LAST for node in graph.nodes):
        return set()
    producers = graph.producers()
    members: dict[Value, set[Any]] = {}

    def join(value: Value | None, vertex: Any) -> None:
        if value is not None and value.constant is None and value.rank in _TO_LAST:
            maker = producers.get(value, _LAST if value in inputs else _DEFAULT)
            members.setdefault(value, {maker}).add(vertex)

    network = Network()
    for node in graph.nodes:
        fixed = _fixed_side(node)
        if fixed is _LAST:
            network.edge(_LAST, node, Network.UNLIMITED)
        elif fixed is _DEFAULT:
            network.edge(node, _DEFAULT, Network.UNLIMITED)
        if node.layout is Layout.PERMUTE:
            side = _free_side(node)
            if side is not None:  # in this layout of its operand, it costs nothing
                join(node.operands[0], side)
                network.edge(*((_LAST, node) if side is _DEFAULT else (node, _DEFAULT)), Network.UNLIMITED)
            continue
        for operand in node.operands[:1] if node.layout is Layout.CHANNELS_LAST else node.operands:
            join(operand, node)
    for value, last in zip(graph.outputs, graph.output_channels_last):
        join(value, _LAST if last else _DEFAULT)
    # First the number of transposes counts, then how much data they move.
    whole = 1 + sum(_elements(value) for value in members)
    for value, vertices in members.items():
        if len(vertices) > 1:
            network.net(vertices, whole + _elements(value))
    side = network.source_side(_LAST, _DEFAULT)
    return {node for node in graph.nodes if node in side} | inputs


def _fixed_side(node: Node) -> str | None:
    """The side on which a node must be, if any."""
    if node.layout is Layout.PERMUTE:
        return None if node.result.rank in _TO_LAST else _DEFAULT
    if node.layout is not Layout.SAME:
        return _LAST if node.layout is Layout.CHANNELS_LAST else _DEFAULT
    if node.kind == "StaticReshape":
        return None
    # A broadcast operand of lower rank has its sizes in the default order.
    ranks = {v.rank for v in (*node.operands, *node.results) if v is not None and v.constant is None}
    return None if len(ranks) == 1 and ranks <= _TO_LAST.keys() else _DEFAULT


def _free_side(node: Node) -> str | None:
    """The side of a permutation's operand from which the permutation is no work."""
    order = node.attributes["perm"]
    if order == _TO_LAST.get(len(order)) and len(order) == 4:
        return _LAST
    return _DEFAULT if order == _TO_DEFAULT.get(len(order)) and len(order) == 4 else None


def _elements(value: Value) -> int:
    return math.prod(size if isinstance(size, int) else 16 for size in value.sizes)


@dataclass
class _Rewriter:
    """Walks over the nodes with every value so far in each layout in which it is at hand."""

    graph: Graph
    last: set[Any]
    nodes: list[Node] = field(default_factory=list)
    at_hand: dict[tuple[Value, bool], Value] = field(default_factory=dict)
    home: dict[Value, bool] = field(default_factory=dict)

    def rewrite(self) -> Graph:
        inputs = tuple(self._define(v, v in self.last) if v is not None else None for v in self.graph.inputs)
        for node in self.graph.nodes:
            self._rewrite(node)
        flags = self.graph.output_channels_last or (False,) * len(self.graph.outputs)
        outputs = tuple(self._in(value, last) for value, last in zip(self.graph.outputs, flags))
        return replace(self.graph, inputs=inputs, outputs=outputs, nodes=tuple(self.nodes))

    def _define(self, value: Value, last: bool) -> Value:
        """The value as it is in memory."""
        last = last and value.rank in _TO_LAST
        made = replace(value, sizes=_permuted(value.sizes, _TO_LAST[value.rank])) if last else value
        self.at_hand[value, last] = made
        self.home[value] = last
        return made

    def _in(self, value: Value, last: bool) -> Value:
        """The value in a layout, transposed if it is not at hand there."""
        last = last and value.rank in _TO_LAST
        if value.constant is not None:
            return value
        if (value, last) not in self.at_hand:
            order = (_TO_LAST if last else _TO_DEFAULT)[value.rank]
            source = self.at_hand[value, not last]
            made = replace(value, sizes=_permuted(source.sizes, order))
            self.nodes.append(Node("StaticTranspose", (source,), (made,), {"perm": order}, Layout.PERMUTE))
            self.at_hand[value, last] = made
        return self.at_hand[value, last]

    def _rewrite(self, node: Node) -> None:
        last = node in self.last
        if node.layout is Layout.PERMUTE:
            self._rewrite_permutation(node, last)
            return
        if node.layout is Layout.CHANNELS_LAST:
            operands = (self._in(node.operands[0], True), *node.operands[1:])  # type: ignore[arg-type]
        else:
            rank = max(result.rank for result in node.results)
            operands = tuple(None if v is None else self._operand(v, last, rank) for v in node.operands)
        results = tuple(self._define(result, last) for result in node.results)
        permuted = last and node.layout is Layout.SAME and node.result.rank in _TO_LAST
        attributes = _in_last(node.attributes, node.result.rank) if permuted else node.attributes
        self.nodes.append(replace(node, operands=operands, results=results, attributes=attributes))

    def _operand(self, value: Value, last: bool, rank: int) -> Value:
        if value.constant is None:
            return self._in(value, last)
        if not last or rank not in _TO_LAST or math.prod(value.sizes) == 1:
            return value
        data, sizes = value.constant, (1,) * (rank - value.rank) + value.sizes
        order = _TO_LAST[rank]
        return replace(
            value, sizes=_permuted(sizes, order), constant=lambda: data().reshape(tuple(sizes)).permute(order)
        )  # fmt: skip

    def _rewrite_permutation(self, node: Node, last: bool) -> None:
        (operand,) = node.operands
        assert operand is not None
        rank = operand.rank
        from_last = self.home.get(operand, False)
        if rank in _TO_LAST and _free_side(node) is not None:
            wanted = _free_side(node) is _LAST
            from_last = wanted if (operand, wanted) in self.at_hand else from_last
        source_order = _TO_LAST[rank] if from_last else tuple(range(rank))
        last = last and rank in _TO_LAST
        result_order = _TO_LAST[rank] if last else tuple(range(rank))
        order = tuple(source_order.index(node.attributes["perm"][d]) for d in result_order)
        source = self._in(operand, from_last)
        if order == tuple(range(rank)):
            self.at_hand[node.result, last] = source
            self.home[node.result] = last
        else:
            result = self._define(node.result, last)
            self.nodes.append(replace(node, operands=(source,), results=(result,), attributes={"perm": order}))


def _permuted(items: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    return tuple(items[d] for d in order)


def _in_last(attributes: Any, rank: int) -> dict[str, Any]:
    """Attributes by dimension, for a channels-last node."""
    order = _TO_LAST[rank]
    changed = {name: _permuted(attributes[name], order) for name in _PERMUTED_ATTRIBUTES if name in attributes}
    if "axis" in attributes:
        changed["axis"] = order.index(attributes["axis"])
    return {**attributes, **changed}
