"""What only moves numbers around between quantizations moves the integers."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Layout, Node, Value
from .schema import DataType

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)

_REARRANGING = frozenset({"StaticReshape", "StaticTranspose", "Copy"})
_MOVING = _REARRANGING | {"StaticSlice"}


def is_quantizing(node: Node) -> bool:
    """Whether it converts floats to integers of a known scale."""
    quantization = node.result.quantization
    return node.kind == "Convert" and quantization is not None and not quantization.is_dynamic and _reads_floats(node)


def is_dequantizing(node: Node) -> bool:
    """Whether it converts integers of a known scale to floats."""
    quantization = node.operands[0].quantization if node.operands[0] is not None else None
    known = quantization is not None and not quantization.is_dynamic
    return node.kind == "Convert" and known and not _reads_floats(node)


def move_integers(graph: Graph) -> Graph:
    """The same graph, quantizing as early and dequantizing as late as moves allow; what cancels is left out.

    So an operator that is made of several nodes, such as a mean that drops its dimensions, is
    quantized where its numbers are computed.
    """
    return _dequantize_late(_quantize_early(graph))


def _quantize_early(graph: Graph) -> Graph:
    """Backwards, what is only moved and then quantized is quantized, then moved."""
    producers, uses = graph.producers(), graph.use_counts()
    integers: dict[Value, Value] = {}  # what is to be made of a float instead of it
    nodes: list[Node] = []

    def make(source: Value, quantized: Value, debug_handle: int) -> None:
        producer = producers.get(source)
        if producer is not None and producer.kind in _REARRANGING and uses[source] == 1:
            integers[source] = quantized
        else:
            nodes.append(Node("Convert", (source,), (quantized,), layout=Layout.SAME, debug_handle=debug_handle))

    for node in reversed(graph.nodes):
        operand = node.operands[0]
        if is_quantizing(node):
            assert operand is not None
            make(operand, node.result, node.debug_handle)
        elif node.result in integers:
            assert operand is not None
            moved = integers[node.result]
            before = replace(moved, sizes=operand.sizes)
            nodes.append(replace(node, operands=(before,), results=(moved,)))
            make(operand, before, node.debug_handle)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)))


def _dequantize_late(graph: Graph) -> Graph:
    """Forwards, what is dequantized and then moved is moved, then dequantized; quantizing it again is nothing."""
    integers: dict[Value, Value] = {}  # what a float was dequantized from
    same: dict[Value, Value] = {}  # integers that are others
    nodes: list[Node] = []
    for node in graph.nodes:
        node = node.with_operands(None if value is None else same.get(value, value) for value in node.operands)
        operand = node.operands[0]
        known = integers.get(operand) if operand is not None else None
        if is_dequantizing(node):
            assert operand is not None
            integers[node.result] = operand
        elif known is not None and is_quantizing(node) and _is_like(known, node.result):
            same[node.result] = known
            continue
        elif known is not None and node.kind in _MOVING:
            moved = replace(known, sizes=node.result.sizes)
            nodes.append(replace(node, operands=(known,), results=(moved,)))
            integers[node.result] = moved
            node = Node("Convert", (moved,), node.results, layout=Layout.SAME, debug_handle=node.debug_handle)
        nodes.append(node)
    outputs = tuple(same.get(value, value) for value in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _is_like(left: Value, right: Value) -> bool:
    return left.dtype == right.dtype and left.quantization == right.quantization


def _reads_floats(node: Node) -> bool:
    return node.operands[0] is not None and node.operands[0].dtype in FLOATS
