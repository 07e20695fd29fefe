"""Quantize and dequantize operators: conversions of activations, and constants that know their integers.

What is said here is right by itself: floats are computed between conversions. quantization.py then
finds the nodes that can compute with the integers.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from rules_executorch.lowering.delegation.partitioning import Companion

from ..builder import FLOATS, Builder
from ..graph import Quantization, Unsupported, Value
from ..schema import DataType
from .table import ENCODERS, Encoder

INTEGERS = {torch.int8: DataType.QINT8, torch.uint8: DataType.QUINT8}

_RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}

# Nodes of these namespaces exist only once torchao, or executorch, has registered them: found by name.
_CHOOSE = frozenset(
    {"quantized_decomposed::choose_qparams.tensor", "quantized_decomposed::choose_qparams_per_token_asymmetric",
     "torchao::choose_qparams_affine"}
)  # fmt: skip
_QUANTIZE = frozenset(
    {"quantized_decomposed::quantize_per_tensor.tensor", "quantized_decomposed::quantize_per_token",
     "torchao::quantize_affine"}
)  # fmt: skip
_DEQUANTIZE = frozenset(
    {"quantized_decomposed::dequantize_per_tensor.tensor", "quantized_decomposed::dequantize_per_token",
     "torchao::dequantize_affine"}
)  # fmt: skip


def quantize_per_tensor(
    b: Builder, val: Any, x: Value, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Value:
    _check_range(quant_min, quant_max, dtype)
    return b.node("Convert", [x], x.sizes, dtype=INTEGERS[dtype], quantization=Quantization(scale, zero_point))


def dequantize_per_tensor(
    b: Builder, val: Any, x: Value, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype,
    *, out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    quantization = Quantization(scale, zero_point)
    if x.constant is not None:
        integers = x.constant
        exact = dtype == torch.int8 and zero_point == 0
        return _dequantized(
            b, x, val, lambda: (integers().float() - zero_point) * scale,
            Value(x.sizes, DataType.QINT8, integers, quantization) if exact else None,
        )  # fmt: skip
    _check_range(quant_min, quant_max, dtype)
    if x.quantization != quantization:
        raise Unsupported("it reads integers of another scale than they were made with")
    return b.node("Convert", [x], x.sizes, dtype=FLOATS[val.dtype])


def dequantize_per_channel(
    b: Builder, val: Any, x: Value, scales: Value, zero_points: Value | None, axis: int, quant_min: int,
    quant_max: int, dtype: torch.dtype, *, out_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    if x.constant is None or scales.constant is None or (zero_points and zero_points.constant is None):
        raise Unsupported("XNNPACK has scales per channel for constants only")
    axis %= x.rank
    shape = [-1 if d == axis else 1 for d in range(x.rank)]
    integers, factors, zeros = x.constant, scales.constant, zero_points and zero_points.constant

    def floats() -> torch.Tensor:
        shifted = integers().float() - (zeros().reshape(shape).float() if zeros else 0)
        return shifted * factors().float().reshape(shape)

    narrow = (quant_min, quant_max) == (-8, 7) and x.rank == 2 and axis == 0
    quantization = Quantization(scales=lambda: _symmetric(factors, zeros), channel_dim=axis)
    quantized = Value(x.sizes, DataType.QCINT4 if narrow else DataType.QCINT8, integers, quantization)
    return _dequantized(b, x, val, floats, quantized if dtype == torch.int8 else None)


def dequantize_per_channel_group(
    b: Builder, val: Any, x: Value, scales: Value, zero_points: Value | None, quant_min: int, quant_max: int,
    dtype: torch.dtype, group_size: int, output_dtype: torch.dtype | None = None,
) -> Value:  # fmt: skip
    return _dequantized_groups(b, val, x, scales, zero_points, (quant_min, quant_max), dtype, group_size)


def choose_qparams(b: Builder, val: Any, x: Value, *options: Any, **named: Any) -> tuple[Value, ...]:
    """Nothing: XNNPACK chooses the scale where it quantizes. So nothing else may read it."""
    node = b.source
    assert node is not None
    source = node.args[0]
    for item in node.users:
        for user in item.users:
            name = _name(user)
            if item.target is not python_operator.getitem or name not in _QUANTIZE | _DEQUANTIZE:
                raise Unsupported("the scale that it chooses is used for something else than to quantize")
            if name in _QUANTIZE and (user.args[0] is not source or user.meta["val"].dtype != torch.int8):
                raise Unsupported("the scale that it chooses is used for another tensor, or for other types than int8")
    unused = Quantization()
    return tuple(Value(tuple(item.shape), FLOATS.get(item.dtype, DataType.INT32), quantization=unused) for item in val)


def quantize_dynamically(b: Builder, val: Any, x: Value, *options: Any, **named: Any) -> Value:
    if val.dtype != torch.int8 or not _chosen_at_run_time(b):
        raise Unsupported("XNNPACK quantizes with known scales, or with those that it chooses for int8")
    return b.node("Convert", [x], x.sizes, dtype=DataType.QDINT8, quantization=Quantization())


def dequantize_dynamically(b: Builder, val: Any, x: Value, *options: Any, **named: Any) -> Value:
    if not _chosen_at_run_time(b):
        raise Unsupported("its scale is not known, nor one that XNNPACK chooses")
    return b.node("Convert", [x], x.sizes, dtype=FLOATS[val.dtype])


def dequantize_affine(
    b: Builder, val: Any, x: Value, block_size: Sequence[int], scale: Value, zero_point: Value | None,
    input_dtype: torch.dtype, quant_min: int | None = None, quant_max: int | None = None, *options: Any, **named: Any,
) -> Value:  # fmt: skip
    """Of a constant, its integers in blocks of one row's elements; of an activation, those of a dynamic scale."""
    if x.constant is None:
        return dequantize_dynamically(b, val, x)
    if x.rank != 2 or tuple(block_size)[0] != 1:
        raise Unsupported("XNNPACK has blocks of one row of a matrix")
    bounds = (-128 if quant_min is None else quant_min, 127 if quant_max is None else quant_max)
    return _dequantized_groups(b, val, x, scale, zero_point, bounds, input_dtype, block_size[1])


def _dequantized_groups(
    b: Builder, val: Any, x: Value, scales: Value, zero_points: Value | None, bounds: tuple[int, int],
    dtype: torch.dtype, group_size: int,
) -> Value:  # fmt: skip
    if x.constant is None or scales.constant is None or (zero_points and zero_points.constant is None):
        raise Unsupported("XNNPACK has scales per group for constants only")
    rows, columns = x.sizes
    integers, factors, zeros = x.constant, scales.constant, zero_points and zero_points.constant

    def floats() -> torch.Tensor:
        blocks = integers().reshape(rows, -1, group_size).float()
        shifted = blocks - (zeros().reshape(rows, -1, 1).float() if zeros else 0)
        return (shifted * factors().float().reshape(rows, -1, 1)).reshape(rows, columns)

    quantized = None
    if dtype == torch.int8 and group_size == columns:
        type_ = DataType.QCINT4 if bounds == (-8, 7) else DataType.QCINT8
        quantized = Value(x.sizes, type_, integers, Quantization(scales=lambda: _symmetric(factors, zeros).reshape(-1)))
    elif dtype == torch.int8 and bounds == (-8, 7) and group_size % 32 == 0:
        groups = Quantization(scales=lambda: _symmetric(factors, zeros).reshape(rows, -1), group_size=group_size)
        quantized = Value(x.sizes, DataType.QBINT4, integers, groups)
    return _dequantized(b, x, val, floats, quantized)


def _dequantized(b: Builder, x: Value, val: Any, data: Callable[[], torch.Tensor], integers: Value | None) -> Value:
    return replace(b.constant(x.sizes, FLOATS[val.dtype], data), integers=integers)


def _symmetric(scales: Callable[[], torch.Tensor], zero_points: Callable[[], torch.Tensor] | None) -> torch.Tensor:
    """The scales, as floats. Raises Unsupported where a zero point is not zero."""
    if zero_points is not None and bool(zero_points().any()):
        raise Unsupported("its zero points are not all zero")
    return scales().float()


def _chosen_at_run_time(b: Builder) -> bool:
    """Whether the scale of the node at hand comes from an operator that chooses it."""
    assert b.source is not None
    parameters = [node for node in b.source.all_input_nodes if node is not b.source.args[0]]
    return bool(parameters) and all(_is_chosen_at_run_time(node) for node in parameters)


def _is_chosen_at_run_time(node: torch.fx.Node) -> bool:
    return node.target is python_operator.getitem and _name(node.args[0]) in _CHOOSE


def _name(node: Any) -> str:
    target = getattr(node, "target", None)
    return target.name() if isinstance(target, torch._ops.OpOverload) else ""


def _check_range(quant_min: int, quant_max: int, dtype: torch.dtype) -> None:
    if _RANGES.get(dtype) != (quant_min, quant_max):
        raise Unsupported(f"XNNPACK's activations use the whole range of int8 or uint8, not {quant_min} to {quant_max}")


def is_quantization(node: torch.fx.Node) -> bool:
    """Whether it is one of the operators of this file."""
    return _name(node) in _BY_NAME


def is_dynamic(node: torch.fx.Node) -> bool:
    """Whether it chooses a scale at run time, or uses one that is chosen there."""
    return _name(node) in _CHOOSE or any(_is_chosen_at_run_time(operand) for operand in node.all_input_nodes)


def belongs(node: torch.fx.Node) -> Companion | None:
    """Quantized results with what computes them, all else with what uses it: XNNPACK has them as one node each."""
    if node.target is python_operator.getitem:
        return belongs(node.args[0])
    name = _name(node)
    if name == "quantized_decomposed::quantize_per_tensor":
        return Companion.OPERAND
    return Companion.USER if name in _BY_NAME else None


def quantization_of(node: torch.fx.Node) -> Quantization | None:
    """What the integers stand for that come into a partition: the first that dequantizes them says so."""
    for user in node.users:
        name = _name(user)
        if name == "quantized_decomposed::dequantize_per_tensor":
            return Quantization(user.args[1], user.args[2])
        if name in _DEQUANTIZE:
            return Quantization()
    return None


_BY_NAME: dict[str, Encoder] = {
    "quantized_decomposed::quantize_per_tensor": quantize_per_tensor,
    "quantized_decomposed::dequantize_per_tensor": dequantize_per_tensor,
    "quantized_decomposed::dequantize_per_channel": dequantize_per_channel,
    "quantized_decomposed::dequantize_per_channel_group": dequantize_per_channel_group,
    **dict.fromkeys(_CHOOSE, choose_qparams),
    **dict.fromkeys(_QUANTIZE, quantize_dynamically),
    **dict.fromkeys(_DEQUANTIZE, dequantize_dynamically),
    "torchao::dequantize_affine": dequantize_affine,
}
ENCODERS.update(_BY_NAME)
