"""Softmax, and attention through its parts."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..builder import TORCH_TYPES, Builder
from ..graph import Unsupported, Value, is_static
from ..schema import DataType
from .table import operator

aten = torch.ops.aten


@operator(aten._softmax.default)
def softmax(b: Builder, val: Any, x: Value, dim: int, half_to_float: bool = False) -> Value:
    if x.rank == 0 or half_to_float:
        raise Unsupported("XNNPACK has no softmax of a number, or of halves to floats")
    dim %= x.rank
    order = [d for d in range(x.rank) if d != dim] + [dim]
    result = b.transpose(x, order)
    result = b.row_softmax(result)
    return b.transpose(result, [order.index(d) for d in range(x.rank)])


@operator(aten.scaled_dot_product_attention.default)
def attention(
    b: Builder, val: Any, query: Value, key: Value, value: Value, mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value, without a copy of the key transposed."""
    if dropout_p or not query.rank == key.rank == value.rank >= 3:
        raise Unsupported("it has dropout, or operands of different ranks")
    if not isinstance(query.sizes[-1], int):
        raise Unsupported("its width is dynamic")
    query = b.binary("Multiply", query, 1 / math.sqrt(query.sizes[-1]) if scale is None else scale)
    if enable_gqa:
        query, key, value, mask = _grouped(b, query, key, value, mask)
    scores = b.batch_matmul(query, key, transpose_b=True)
    if is_causal:
        rows, columns = scores.sizes[-2:]
        if not is_static((rows, columns)):
            raise Unsupported("it is causal, and its length is dynamic")
        future = b.constant((rows, columns), scores.dtype, lambda: torch.full((rows, columns), -math.inf).triu(1))
        weights = b.row_softmax(b.binary("Add", scores, future))  # every row attends to its first column
    elif mask is not None:
        weights = _masked_softmax(b, b.binary("Add", scores, mask))
    else:
        weights = b.row_softmax(scores)
    return b.reshape(b.batch_matmul(weights, value), tuple(val.shape))


def _grouped(
    b: Builder, query: Value, key: Value, value: Value, mask: Value | None
) -> tuple[Value, Value, Value, Value | None]:
    """Queries with a dimension for those that share a head of keys and values, against which these are broadcast."""
    heads, shared = query.sizes[-3], key.sizes[-3]
    if not isinstance(heads, int) or not isinstance(shared, int) or key.sizes[-3] != value.sizes[-3]:
        raise Unsupported("its numbers of heads are dynamic, or differ for keys and values")

    def split(x: Value) -> Value:
        return b.reshape(x, (*x.sizes[:-3], shared, heads // shared, *x.sizes[-2:]))

    def single(x: Value) -> Value:
        return b.reshape(x, (*x.sizes[:-2], 1, *x.sizes[-2:]))

    if mask is not None and mask.rank > 2:
        mask = split(mask) if mask.sizes[-3] == heads else single(mask)
    return split(query), single(key), single(value), mask


def _masked_softmax(b: Builder, scores: Value) -> Value:
    """Softmax of rows, and zeros for rows of nothing but -inf, as PyTorch has it.

    Such a row is clamped to the least number there is, and its uniform weights are multiplied by zero. The factors
    are one for any finite score: those that are masked by the least number count as attended, as in PyTorch.
    """
    small, least = {DataType.FLOAT32: (2.0**-100, -(2.0**29)), DataType.FLOAT16: (2.0**-7, -(2.0**10))}[scores.dtype]
    finite = torch.finfo(TORCH_TYPES[scores.dtype])
    weights = b.row_softmax(b.clamp(scores, finite.min, math.inf))
    shrunk = b.clamp(b.binary("Multiply", scores, small), least, math.inf)  # finite scores are at least half of `least`
    factors = b.clamp(b.binary("Add", b.binary("Multiply", shrunk, -2 / least), 2.0), 0.0, 1.0)
    return b.binary("Multiply", weights, factors)
