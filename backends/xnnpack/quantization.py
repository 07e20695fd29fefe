"""Nodes between a dequantization and a quantization compute with the integers themselves."""

from __future__ import annotations

from dataclasses import replace

import torch

from .builder import need_constant
from .graph import Graph, Layout, Node, Quantization, Unsupported, Value
from .quantization_moves import is_dequantizing, is_quantizing, move_integers
from .schema import DataType

_PRODUCTS = frozenset({"FullyConnected", "Conv2d", "DepthwiseConv2d", "ConvTranspose2d"})
_DYNAMIC_PRODUCTS = {"FullyConnected": 1, "Conv2d": 3}  # and how many dimensions share a scale
_BINARY = frozenset({"Add", "Subtract", "Multiply"})
_RESCALING = frozenset({"GlobalAvgPooling2d", "Hardswish",  "Sigmoid", "Tanh", "ELU", "LeakyReLU"})
_PASSING = frozenset(
    {"Clamp", "MaxPooling2d", "StaticReshape", "StaticTranspose", "StaticSlice", "StaticConstantPad", "Copy",
     "StaticResizeBilinear2D", "Concatenate2", "Concatenate3", "Concatenate4", "Concatenate5"}
)  # fmt: skip


def quantize(graph: Graph) -> Graph:
    """Use integers wherever XNNPACK has the node for them; what is left converts to floats and back."""
    if not any(node.kind == "Convert" for node in graph.nodes):
        return graph
    return _without_loose_ends(_dynamic(_view_first(_static(move_integers(graph)))))


def _static(graph: Graph) -> Graph:
    producers, uses = graph.producers(), graph.use_counts()
    quantizing = {node.operands[0]: node for node in graph.nodes if is_quantizing(node)}
    nodes: list[Node] = []
    done: set[Node] = set()
    for node in graph.nodes:
        quantizer = quantizing.get(node.result)
        if quantizer is not None and uses[node.result] == 1:
            integers = tuple(_dequantized_from(value, producers) for value in node.operands)
            quantized = _quantized(node, quantizer.result, integers)
            if quantized is not None:
                nodes.append(quantized)
                done.add(quantizer)
                continue
        if node not in done:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _dequantized_from(value: Value | None, producers: dict[Value, Node]) -> Value | None:
    """The integers that a value was converted from, with a known scale."""
    node = producers.get(value) if value is not None else None
    return node.operands[0] if node is not None and is_dequantizing(node) else None


def _quantized(node: Node, result: Value, integers: tuple[Value | None, ...]) -> Node | None:
    """The node on integers, or None where XNNPACK has none such."""
    first = integers[0] if integers else None
    if first is None or first.dtype != result.dtype:
        return None
    if node.kind in _PRODUCTS:
        return _quantized_product(node, result, first)
    if any(value is None or value.dtype != result.dtype for value in integers):
        return None
    if node.kind == "Square":
        return replace(node, kind="Multiply", operands=(first, first), results=(result,))
    same = all(value.quantization == result.quantization for value in integers)  # type: ignore[union-attr]
    if node.kind in _BINARY | _RESCALING or (node.kind in _PASSING and same):
        return replace(node, operands=integers, results=(result,))
    return None


def _quantized_product(node: Node, result: Value, x: Value) -> Node | None:
    _, weight, bias = node.operands
    assert weight is not None and x.quantization is not None and x.quantization.scale is not None
    integers = weight.integers
    if x.dtype != DataType.QINT8 or not _is_usable(integers, (DataType.QINT8, DataType.QCINT8)):
        return None
    assert integers is not None and integers.quantization is not None
    if bias is not None:
        bias = _integer_bias(bias, x.quantization.scale, integers.quantization)
    return replace(node, operands=(x, integers, bias), results=(result,))


def _integer_bias(bias: Value, scale: float, weights: Quantization) -> Value:
    """The bias in units of an activation times a weight, of which the product is a sum."""
    data = need_constant(bias)
    if weights.scale is not None:
        unit = scale * weights.scale
        return Value(bias.sizes, DataType.QINT32, lambda: _rounded(data() / unit), Quantization(unit))
    scales = weights.scales
    assert scales is not None
    return Value(
        bias.sizes, DataType.QCINT32, lambda: _rounded(data() / (scales() * scale)),
        Quantization(scales=lambda: scales() * scale),
    )  # fmt: skip


def _rounded(units: torch.Tensor) -> torch.Tensor:
    return units.double().round().clamp(-(2**31), 2**31 - 1).to(torch.int32)


def _is_usable(integers: Value | None, types: tuple[DataType, ...]) -> bool:
    """Whether weights are integers of these types around zero."""
    if integers is None or integers.dtype not in types or integers.quantization is None:
        return False
    try:
        if integers.quantization.scales is not None:
            integers.quantization.scales()
    except Unsupported:
        return False
    return True


def _view_first(graph: Graph) -> Graph:
    """What is quantized dynamically and then viewed, as a row is that becomes an image, is viewed before it."""
    producers = graph.producers()
    nodes: list[Node] = []
    for node in graph.nodes:
        source = _dynamically_from(node, producers) if node.kind == "StaticReshape" else None
        if source is not None:
            view = replace(source, sizes=node.result.sizes)
            rows = replace(view, dtype=DataType.QDINT8, quantization=Quantization())
            nodes += [replace(node, operands=(source,), results=(view,)), Node("Convert", (view,), (rows,))]
            node = Node("Convert", (rows,), node.results)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _dynamic(graph: Graph) -> Graph:
    """Products of dynamically quantized activations, of which XNNPACK chooses the scale, row by row."""
    producers = graph.producers()
    types = (DataType.QCINT8, DataType.QCINT4, DataType.QBINT4)
    nodes: list[Node] = []
    rows: dict[tuple[Value, int, Layout], Value] = {}
    for node in graph.nodes:
        source = _dynamically_from(node, producers)
        if source is not None and node.kind in _DYNAMIC_PRODUCTS and _is_usable(node.operands[1].integers, types):
            node = _by_pixel(replace(node, operands=(source, node.operands[1].integers, node.operands[2])))
            row_dims = _DYNAMIC_PRODUCTS[node.kind]
            key = (source, row_dims, node.layout)
            if key not in rows:
                quantization = Quantization(row_dims=row_dims)
                rows[key] = replace(source, dtype=DataType.QDINT8, constant=None, quantization=quantization)
                nodes.append(Node("Convert", (source,), (rows[key],), layout=node.layout))
            node = node.with_operands((rows[key], *node.operands[1:]))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _by_pixel(node: Node) -> Node:
    """A convolution of single pixels as the product of matrices that it is, channels-last, with a scale for each pixel.

    XNNPACK would change it into that too, but then fails where two of them share their input, and
    computes nonsense where a larger convolution shares it.
    """
    if node.kind != "Conv2d" or node.attributes["groups"] != 1:
        return node
    sizes = (f"{name}_{side}" for name in ("kernel", "subsampling") for side in ("height", "width"))
    borders = (f"padding_{side}" for side in ("top", "right", "bottom", "left"))
    if any(node.attributes[name] != 1 for name in sizes) or any(node.attributes[name] != 0 for name in borders):
        return node
    x, weight, bias = node.operands
    assert weight is not None
    data, shape = need_constant(weight), (weight.sizes[0], weight.sizes[3])
    weight = replace(weight, sizes=shape, constant=lambda: data().reshape(shape))  # type: ignore[arg-type]
    return replace(node, kind="FullyConnected", operands=(x, weight, bias), attributes={})


def _dynamically_from(node: Node, producers: dict[Value, Node]) -> Value | None:
    """The floats whose dynamic quantization and dequantization a node's first operand is."""
    back = producers.get(node.operands[0]) if node.operands and node.operands[0] is not None else None
    there = producers.get(back.operands[0]) if back is not None and back.kind == "Convert" else None
    if there is None or there.kind != "Convert" or there.result.dtype != DataType.QDINT8:
        return None
    return there.operands[0]


def _without_loose_ends(graph: Graph) -> Graph:
    """Dynamic quantization that no product uses is left out: floats go on as they are."""
    producers = graph.producers()
    nodes: list[Node] = []
    for node in graph.nodes:
        there = producers.get(node.operands[0]) if node.kind == "Convert" and node.operands[0] is not None else None
        if there is not None and there.result.dtype == DataType.QDINT8:
            node = replace(node, kind="Copy", operands=there.operands)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
