"""Order statistics: by `topk`, and by comparing all pairs where the order among equals counts."""

from __future__ import annotations

import math
from typing import Any

import torch

from .register import decomposes

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
    """Each element goes where the number of those before it says, so that equal ones keep their order."""
    if not stable or self.dim() == 0:
        return aten.sort.default(self, dim, descending)
    last = aten.transpose.int(self, dim, -1)
    ours, others = aten.unsqueeze.default(last, -1), aten.unsqueeze.default(last, -2)
    compare = aten.gt.Tensor if descending else aten.lt.Tensor
    positions = aten.arange.default(last.shape[-1])
    earlier = aten.lt.Tensor(aten.unsqueeze.default(positions, 0), aten.unsqueeze.default(positions, 1))
    ties = aten.logical_and.default(aten.eq.Tensor(others, ours), earlier)
    before = aten.logical_or.default(compare(others, ours), ties)
    rank = aten.sum.dim_IntList(aten._to_copy.default(before, dtype=torch.int64), [-1])
    source = aten.expand.default(positions, last.shape)
    index = aten.scatter.src(aten.full.default(last.shape, 0, dtype=torch.int64), -1, rank, aten.clone.default(source))
    values = aten.gather.default(last, -1, index)
    return aten.transpose.int(values, dim, -1), aten.transpose.int(index, dim, -1)


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


@decomposes(aten.cummax.default)
def cummax(self: Any, dim: int) -> Any:
    return _running_extreme(self, dim, aten.amax.default, largest=False)


@decomposes(aten.cummin.default)
def cummin(self: Any, dim: int) -> Any:
    return _running_extreme(self, dim, aten.amin.default, largest=True)


@decomposes(aten.cumprod.default)
def cumprod(self: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    result_type = dtype or (self.dtype if self.is_floating_point() else torch.int64)
    if result_type != self.dtype:
        self = aten._to_copy.default(self, dtype=result_type)
    if self.dim() == 0:
        return self
    return aten.transpose.int(aten.prod.dim_int(_prefixes(aten.transpose.int(self, dim, -1), 1), -1), dim, -1)


@decomposes(aten.logcumsumexp.default)
def logcumsumexp(self: Any, dim: int) -> Any:
    if self.dim() == 0:
        return self
    prefixes = _prefixes(aten.transpose.int(self, dim, -1), -math.inf)
    return aten.transpose.int(aten.logsumexp.default(prefixes, [-1]), dim, -1)


@decomposes(aten.isin.Tensor_Tensor)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    candidates = aten.reshape.default(test_elements, [-1])
    found = aten.any.dim(aten.eq.Tensor(aten.unsqueeze.default(elements, -1), candidates), -1)
    return aten.logical_not.default(found) if invert else found


@decomposes(aten.searchsorted.Tensor)
def searchsorted(
    sorted_sequence: Any,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    if sorter is not None:
        sorted_sequence = aten.gather.default(sorted_sequence, -1, sorter)
    values = aten.unsqueeze.default(self, -1)
    sequence = aten.unsqueeze.default(sorted_sequence, -2) if sorted_sequence.dim() > 1 else sorted_sequence
    smaller = (aten.le if right or side == "right" else aten.lt).Tensor(sequence, values)
    dtype = torch.int32 if out_int32 else torch.int64
    return aten.sum.dim_IntList(aten._to_copy.default(smaller, dtype=dtype), [-1], dtype=dtype)


@decomposes(aten.bucketize.Tensor)
def bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return aten.searchsorted.Tensor(boundaries, self, out_int32=out_int32, right=right)


def _running_extreme(self: Any, dim: int, reduce: Any, *, largest: bool) -> tuple[Any, Any]:
    if self.dim() == 0:
        return self, aten.full.default([], 0, dtype=torch.int64)
    last = aten.transpose.int(self, dim, -1)
    prefixes = _prefixes(last, limit(self.dtype, largest=largest))
    values = reduce(prefixes, [-1])
    positions = aten.arange.default(last.shape[-1])
    equal = aten.eq.Tensor(aten.unsqueeze.default(last, -2), aten.unsqueeze.default(values, -1))
    found = aten.logical_and.default(equal, _lower(last.shape[-1]))
    index = aten.amax.default(aten.where.ScalarOther(found, positions, -1), [-1])
    return aten.transpose.int(values, dim, -1), aten.transpose.int(index, dim, -1)


def _prefixes(last: Any, neutral: Any) -> Any:
    """[…, n] → […, n, n]: row i has the elements up to i, and `neutral` after them."""
    return aten.where.ScalarOther(_lower(last.shape[-1]), aten.unsqueeze.default(last, -2), neutral)


def _lower(size: Any) -> Any:
    return aten.tril.default(aten.full.default([size, size], True, dtype=torch.bool))


def limit(dtype: torch.dtype, *, largest: bool) -> Any:
    """The largest or smallest value of a dtype, infinite for floating point."""
    if dtype == torch.bool:
        return largest
    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    return torch.iinfo(dtype).max if largest else torch.iinfo(dtype).min
