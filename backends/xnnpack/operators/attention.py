"""Softmax, and attention through its parts."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..builder import Builder
from ..graph import Unsupported, Value, is_static
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
    if dropout_p or enable_gqa or not query.rank == key.rank == value.rank >= 3:
        raise Unsupported("it has dropout, grouped queries, or operands of different ranks")
    if mask is not None:
        raise Unsupported("what its mask leaves nothing of must be zero, which the operators that it is made of see to")
    if not isinstance(query.sizes[-1], int):
        raise Unsupported("its width is dynamic")
    query = b.binary("Multiply", query, 1 / math.sqrt(query.sizes[-1]) if scale is None else scale)
    scores = b.batch_matmul(query, key, transpose_b=True)
    if is_causal:
        rows, columns = scores.sizes[-2:]
        if not is_static((rows, columns)):
            raise Unsupported("it is causal, and its length is dynamic")
        future = b.constant((rows, columns), scores.dtype, lambda: torch.full((rows, columns), -math.inf).triu(1))
        scores = b.binary("Add", scores, future)
    return b.batch_matmul(b.row_softmax(scores), value)
