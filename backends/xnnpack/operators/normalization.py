"""Normalisation layers, and means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..builder import Builder, need_constant
from ..graph import Unsupported, Value, is_static
from .table import operator

aten = torch.ops.aten


@operator(aten.native_layer_norm.default)
def layer_norm(
    b: Builder, val: Any, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value | None, ...]:
    """Means are products with a row of 1/n; the variance is that of the centred values, as PyTorch's is."""
    if not is_static(shape):
        raise Unsupported("it normalises a dynamic dimension")
    sizes = x.sizes
    if len(shape) > 1:
        x = b.reshape(x, (*sizes[: -len(shape)], math.prod(shape)))
        weight, bias = (None if v is None else b.reshape(v, (math.prod(shape),)) for v in (weight, bias))
    return b.reshape(_affine(b, _normalized(b, x, eps), weight, bias), sizes), None, None


@operator(aten.native_group_norm.default)
def group_norm(
    b: Builder, val: Any, x: Value, weight: Value | None, bias: Value | None, n: Any, c: int, hxw: Any, groups: int,
    eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    if not is_static(x.sizes[1:]):
        raise Unsupported("it normalises a dynamic dimension")
    rows = b.reshape(x, (x.sizes[0], groups, math.prod(x.sizes[1:]) // groups))
    result = b.reshape(_normalized(b, rows, eps), x.sizes)
    return _affine(b, result, *(_per_channel(b, v, x.rank) for v in (weight, bias))), None, None


@operator(aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    b: Builder, val: Any, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value,
    momentum: float, eps: float,
) -> tuple[Value | None, ...]:  # fmt: skip
    """A factor and a summand per channel, from constants."""
    data = {name: None if v is None else need_constant(v) for name, v in
            (("weight", weight), ("bias", bias), ("mean", mean), ("variance", variance))}  # fmt: skip
    channels = mean.sizes

    def factor() -> torch.Tensor:
        scale = torch.rsqrt(data["variance"]().float() + eps)
        return scale if data["weight"] is None else scale * data["weight"]().float()

    def summand() -> torch.Tensor:
        shift = -data["mean"]().float() * factor()
        return shift if data["bias"] is None else shift + data["bias"]().float()

    scale, shift = (_per_channel(b, b.constant(channels, x.dtype, f), x.rank) for f in (factor, summand))
    return _affine(b, x, scale, shift), None, None


@operator(aten.mean.dim)
def mean(
    b: Builder, val: Any, x: Value, dims: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    dims = sorted({d % x.rank for d in dims}) if dims else list(range(x.rank))
    kept = tuple(1 if d in dims else size for d, size in enumerate(x.sizes))
    if not is_static(x.sizes[d] for d in dims) and dims != [2, 3]:
        raise Unsupported("it reduces a dynamic dimension")
    if dims == [2, 3] and x.rank == 4:
        result = b.image_mean(x)
    elif dims == list(range(dims[0], x.rank)):
        result = b.row_mean(b.reshape(x, (*x.sizes[: dims[0]], math.prod(x.sizes[d] for d in dims))))
    else:
        order = [d for d in range(x.rank) if d not in dims] + dims
        rows = b.transpose(x, order)
        others = rows.sizes[: x.rank - len(dims)]
        result = b.row_mean(b.reshape(rows, (*others, math.prod(x.sizes[d] for d in dims))))
    sizes = kept if keepdim else tuple(val.shape)
    return b.reshape(result, sizes)


@operator(aten.mean.default)
def mean_of_all(b: Builder, val: Any, x: Value, *, dtype: Any = None) -> Value:
    return mean(b, val, x, None, dtype=dtype)


@operator(aten.sum.dim_IntList)
def sum_(
    b: Builder, val: Any, x: Value, dims: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """The mean times the number of elements."""
    reduced = [x.sizes[d] for d in dims] if dims else list(x.sizes)
    if not is_static(reduced):
        raise Unsupported("it reduces a dynamic dimension")
    return b.binary("Multiply", mean(b, val, x, dims, keepdim), float(math.prod(reduced)))


@operator(aten.var.correction)
def var(
    b: Builder, val: Any, x: Value, dims: Sequence[int] | None = None, *, correction: float | None = None,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    reduced = [x.sizes[d] for d in dims] if dims else list(x.sizes)
    if not is_static(x.sizes):
        raise Unsupported("it has dynamic sizes")
    count, correction = math.prod(reduced), 1 if correction is None else correction
    if count <= correction:
        raise Unsupported("its divisor is not positive")
    all_dims = {d % x.rank for d in dims} if dims else set(range(x.rank))
    kept = torch.empty([1 if d in all_dims else s for d, s in enumerate(x.sizes)], device="meta")
    centred = b.binary("Subtract", x, mean(b, kept, x, dims, True))
    squares = mean(b, val, b.unary("Square", centred), dims, keepdim)
    return b.binary("Multiply", squares, count / (count - correction))


@operator(aten.var.dim)
def var_dim(
    b: Builder, val: Any, x: Value, dims: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False
) -> Value:
    return var(b, val, x, dims, correction=int(unbiased), keepdim=keepdim)


def _normalized(b: Builder, x: Value, eps: float) -> Value:
    """Each row with mean zero and variance one."""
    centred = b.binary("Subtract", x, b.row_mean(x))
    variance = b.row_mean(b.unary("Square", centred))
    return b.binary("Multiply", centred, b.unary("ReciprocalSquareRoot", b.binary("Add", variance, eps)))


def _affine(b: Builder, x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = x if weight is None else b.binary("Multiply", x, weight)
    return x if bias is None else b.binary("Add", x, bias)


def _per_channel(b: Builder, value: Value | None, rank: int) -> Value | None:
    """A vector of one number per channel, as a tensor that broadcasts against [N, C, …]."""
    return None if value is None else b.reshape(value, (1, value.sizes[0]) + (1,) * (rank - 2))
