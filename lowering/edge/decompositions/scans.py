"""Running products, sums and extremes: each round combines twice as many elements, so n take O(n log n)."""

from __future__ import annotations

import math
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten

# The distances of an unbounded dimension are as many as any memory needs; that it has no bound is reported later.
_LARGEST = 2**40


@decomposes(aten.cumprod.default)
def cumprod(self: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    result_type = dtype or (self.dtype if self.is_floating_point() else torch.int64)
    if result_type != self.dtype:
        self = aten._to_copy.default(self, dtype=result_type)
    return _running(self, dim, aten.mul.Tensor, 1)


@decomposes(aten.logcumsumexp.default)
def logcumsumexp(self: Any, dim: int) -> Any:
    return _running(self, dim, aten.logaddexp.default, -math.inf)


@decomposes(aten.cummax.default)
def cummax(self: Any, dim: int) -> Any:
    return _running_extreme(self, dim, aten.ge.Tensor, limit(self.dtype, largest=False))


@decomposes(aten.cummin.default)
def cummin(self: Any, dim: int) -> Any:
    return _running_extreme(self, dim, aten.le.Tensor, limit(self.dtype, largest=True))


def distances(size: Any) -> list[int]:
    """1, 2, 4, … below `size`, or below the most that a symbolic size can be."""
    if isinstance(size, torch.SymInt):
        upper = size.node.shape_env.bound_sympy(size.node.expr).upper
        size = int(upper) if upper.is_Integer and upper < _LARGEST else _LARGEST
    return [1 << bit for bit in range(max(size - 1, 0).bit_length())]


def shifted(last: Any, by: int, fill: Any) -> Any:
    """`last` moved `by` places along its last dimension, with `fill` before it."""
    return aten.slice.Tensor(aten.constant_pad_nd.default(last, [by, 0], fill), -1, 0, last.shape[-1])


def limit(dtype: torch.dtype, *, largest: bool) -> Any:
    """The largest or smallest value of a dtype, infinite for floating point."""
    if dtype == torch.bool:
        return largest
    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    return torch.iinfo(dtype).max if largest else torch.iinfo(dtype).min


def _running(self: Any, dim: int, combine: Any, neutral: Any) -> Any:
    if self.dim() == 0:
        return self
    last = aten.transpose.int(self, dim, -1)
    for by in distances(last.shape[-1]):
        last = combine(last, shifted(last, by, neutral))
    return aten.transpose.int(last, dim, -1)


def _running_extreme(self: Any, dim: int, beats: Any, neutral: Any) -> tuple[Any, Any]:
    """Values and their indices: the last of equal ones, as PyTorch has it, and NaN from the first one on."""
    if self.dim() == 0:
        return self, aten.full.default([], 0, dtype=torch.int64)
    values = aten.transpose.int(self, dim, -1)
    index = aten.clone.default(aten.expand.default(aten.arange.default(values.shape[-1]), values.shape))
    for by in distances(values.shape[-1]):
        earlier = shifted(values, by, neutral)
        stays = beats(values, earlier)
        if self.is_floating_point():
            stays = aten.logical_or.default(stays, aten.isnan.default(values))
        values = aten.where.self(stays, values, earlier)
        index = aten.where.self(stays, index, shifted(index, by, 0))
    return aten.transpose.int(values, dim, -1), aten.transpose.int(index, dim, -1)
