"""Order statistics, by `topk`."""

from __future__ import annotations

import math
from typing import Any

import torch

from .register import decomposes
from .scans import shifted

aten = torch.ops.aten


@decomposes(aten.sort.default)
def sort(self: Any, dim: int = -1, descending: bool = False) -> Any:
    if self.dim() == 0:
        return self, aten.full.default([], 0, dtype=torch.int64)
    if self.dtype == torch.bool:
        values, indices = aten.sort.default(aten._to_copy.default(self, dtype=torch.uint8), dim, descending)
        return aten._to_copy.default(values, dtype=torch.bool), indices
    return aten.topk.default(self, self.shape[dim], dim, descending, True)


@decomposes(aten.sort.stable)
def sort_stable(self: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Sorted twice: by value, then by pairs of (how many smaller values there are, index), each as one number."""
    if not stable or self.dim() == 0:
        return aten.sort.default(self, dim, descending)
    last = aten.transpose.int(self, dim, -1)
    size = last.shape[-1]
    values, order = aten.sort.default(last, -1, descending)
    rank = aten.cumsum.default(aten._to_copy.default(_differs(values, shifted(values, 1, 0)), dtype=torch.int64), -1)
    pairs = aten.add.Tensor(aten.mul.Scalar(rank, size), order)
    index = aten.gather.default(order, -1, aten.topk.default(pairs, size, -1, False, True)[1])
    return aten.transpose.int(aten.gather.default(last, -1, index), dim, -1), aten.transpose.int(index, dim, -1)


def _differs(left: Any, right: Any) -> Any:
    """Where two tensors differ, NaN being equal to itself."""
    different = aten.ne.Tensor(left, right)
    if not left.is_floating_point():
        return different
    both = aten.logical_and.default(aten.isnan.default(left), aten.isnan.default(right))
    return aten.logical_and.default(different, aten.logical_not.default(both))


@decomposes(aten.kthvalue.default)
def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if self.dim() == 0:
        return self, aten.full.default([], 0, dtype=torch.int64)
    values, indices = aten.topk.default(self, k, dim, False, True)
    part = (lambda t: aten.slice.Tensor(t, dim, k - 1, k)) if keepdim else (lambda t: aten.select.int(t, dim, k - 1))
    return part(values), part(indices)


@decomposes(aten.median.dim)
def median_dim(self: Any, dim: int, keepdim: bool = False) -> Any:
    if self.dim() == 0:
        return self, aten.full.default([], 0, dtype=torch.int64)
    value, index = aten.kthvalue.default(self, (self.shape[dim] + 1) // 2, dim, keepdim)
    if not self.is_floating_point():
        return value, index
    isnan = aten.isnan.default(self)
    any_nan = aten.any.dim(isnan, dim, keepdim)
    first_nan = aten.max.dim(aten._to_copy.default(isnan, dtype=self.dtype), dim, keepdim)[1]
    return aten.where.ScalarSelf(any_nan, math.nan, value), aten.where.self(any_nan, first_nan, index)


@decomposes(aten.nanmedian.dim)
def nanmedian_dim(self: Any, dim: int, keepdim: bool = False) -> Any:
    if self.dim() == 0 or not self.is_floating_point():
        return aten.median.dim(self, dim, keepdim)
    isnan = aten.isnan.default(self)
    values, indices = aten.topk.default(aten.where.ScalarSelf(isnan, math.inf, self), self.shape[dim], dim, False, True)
    count = aten.sum.dim_IntList(aten._to_copy.default(aten.logical_not.default(isnan), dtype=torch.int64), [dim], True)
    middle = aten.clamp.default(aten.div.Scalar_mode(aten.sub.Scalar(count, 1), 2, rounding_mode="floor"), 0)
    value, index = aten.gather.default(values, dim, middle), aten.gather.default(indices, dim, middle)
    value = aten.where.ScalarSelf(aten.eq.Scalar(count, 0), math.nan, value)
    return (value, index) if keepdim else (aten.squeeze.dim(value, dim), aten.squeeze.dim(index, dim))


@decomposes(aten.median.default)
def median(self: Any) -> Any:
    return aten.median.dim(aten.reshape.default(self, [-1]), 0)[0]


@decomposes(aten.nanmedian.default)
def nanmedian(self: Any) -> Any:
    return aten.nanmedian.dim(aten.reshape.default(self, [-1]), 0)[0]
