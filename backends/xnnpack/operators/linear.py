"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder, need_constant
from ..graph import Unsupported, Value
from .table import operator

aten = torch.ops.aten


@operator(aten.linear.default)
def linear(b: Builder, val: Any, x: Value, weight: Value, bias: Value | None = None) -> Value:
    need_constant(weight, "its weight")
    if weight.rank != 2 or x.rank < 1:
        raise Unsupported("its weight is not a matrix")
    if bias is not None:
        need_constant(bias, "its bias")
    return b.fully_connected(x, weight, bias)


@operator(aten.addmm.default)
def addmm(b: Builder, val: Any, bias: Value, x: Value, weight: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    width = weight.sizes[1]
    if weight.constant is not None and bias.constant is not None and beta == alpha == 1 and bias.sizes == (width,):
        return b.fully_connected(x, _transposed(b, weight), bias)
    product = mm(b, val, x, weight)
    product = product if alpha == 1 else b.binary("Multiply", product, float(alpha))
    return b.binary("Add", product, bias if beta == 1 else b.binary("Multiply", bias, float(beta)))


@operator(aten.mm.default)
def mm(b: Builder, val: Any, x: Value, weight: Value) -> Value:
    if weight.constant is not None:
        return b.fully_connected(x, _transposed(b, weight), None)
    return b.batch_matmul(x, weight)


@operator(aten.bmm.default)
def bmm(b: Builder, val: Any, x: Value, y: Value) -> Value:
    return b.batch_matmul(x, y)


@operator(aten.matmul.default)
def matmul(b: Builder, val: Any, x: Value, y: Value) -> Value:
    if x.rank < 2 or y.rank < 2:
        raise Unsupported("an operand is a vector")
    if y.rank == 2 and y.constant is not None:
        return b.fully_connected(x, _transposed(b, y), None)
    rank = max(x.rank, y.rank)
    x, y = (b.reshape(v, (1,) * (rank - v.rank) + v.sizes) for v in (x, y))
    return b.batch_matmul(x, y)


def _transposed(b: Builder, weight: Value) -> Value:
    return b.derived(weight, lambda w: w.t(), weight.sizes[::-1], channels=(1, 0))
