"""Reductions by index: scatter, index and embedding-bag reductions that the runtime has no kernel for."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes
from .scans import distances, limit, shifted

aten = torch.ops.aten


@decomposes(aten.scatter_reduce.two)
def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """`sum` and `mean` by scatter_add; the others by sorting the places."""
    if self.dim() == 0:
        whole = aten.scatter_reduce.two(*_one_dimensional(self), *_rest(index, src, reduce), include_self=include_self)
        return aten.view.default(whole, [])
    if self.dtype == torch.bool and reduce in ("sum", "prod"):
        reduce = {"sum": "amax", "prod": "amin"}[reduce]
    if reduce in ("sum", "mean"):
        base = self if include_self else aten.scatter.value(self, dim, index, 0)
        total = aten.scatter_add.default(base, dim, index, src)
        return total if reduce == "sum" else _divided(total, self, dim, index, include_self)
    return _by_place(self, dim % self.dim(), index, src, reduce, include_self)


@decomposes(aten.gather.default)
def gather(self: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    return NotImplemented if index.dtype == torch.int64 else aten.gather.default(self, dim, _long(index))


@decomposes(aten.scatter.src)
def scatter_src(self: Any, dim: int, index: Any, src: Any) -> Any:
    return NotImplemented if index.dtype == torch.int64 else aten.scatter.src(self, dim, _long(index), src)


@decomposes(aten.scatter.value)
def scatter_value(self: Any, dim: int, index: Any, value: Any) -> Any:
    return NotImplemented if index.dtype == torch.int64 else aten.scatter.value(self, dim, _long(index), value)


@decomposes(aten.scatter_add.default)
def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    return NotImplemented if index.dtype == torch.int64 else aten.scatter_add.default(self, dim, _long(index), src)


@decomposes(aten.scatter.reduce)
def scatter_src_reduce(self: Any, dim: int, index: Any, src: Any, *, reduce: str) -> Any:
    return aten.scatter_reduce.two(self, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


@decomposes(aten.scatter.value_reduce)
def scatter_value_reduce(self: Any, dim: int, index: Any, value: Any, *, reduce: str) -> Any:
    src = aten.full.default(index.shape, value, dtype=self.dtype)
    return aten.scatter_reduce.two(self, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


@decomposes(aten.index_reduce.default)
def index_reduce(self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    if self.dim() == 0:
        one, flat = aten.view.default(self, [1]), aten.reshape.default(source, [-1])
        whole = aten.index_reduce.default(one, 0, index, flat, reduce, include_self=include_self)
        return aten.view.default(whole, [])
    shape = [1] * source.dim()
    shape[dim] = -1
    places = aten.expand.default(aten.reshape.default(index, shape), source.shape)
    return aten.scatter_reduce.two(self, dim, places, source, reduce, include_self=include_self)


@decomposes(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Sum (0), mean (1) or maximum (2) of the rows of each bag: weight [V, E], indices [J], offsets [B] → [B, E]."""
    starts = aten.slice.Tensor(offsets, 0, 0, -1) if include_last_offset else offsets
    positions = aten.arange.default(indices.shape[0], dtype=offsets.dtype)
    bag = aten.sub.Scalar(aten.searchsorted.Tensor(starts, positions, right=True), 1)
    rows = aten.embedding.default(weight, indices)
    counted = aten.full.default(indices.shape, True, dtype=torch.bool)
    if padding_idx >= 0:
        counted = aten.ne.Scalar(indices, padding_idx)
        ignored = limit(rows.dtype, largest=False) if mode == 2 else 0.0
        rows = aten.where.ScalarOther(aten.unsqueeze.default(counted, 1), rows, ignored)
    none = aten.full.default([starts.shape[0]], 0, dtype=torch.int64)
    count = aten.scatter_add.default(none, 0, bag, aten._to_copy.default(counted, dtype=torch.int64))
    if per_sample_weights is not None:
        rows = aten.mul.Tensor(rows, aten.unsqueeze.default(per_sample_weights, 1))
    result = aten.full.default([starts.shape[0], weight.shape[1]], 0, dtype=weight.dtype)
    place = aten.clone.default(aten.expand.default(aten.unsqueeze.default(bag, 1), rows.shape))
    if mode == 2:
        result = aten.scatter_reduce.two(result, 0, place, rows, "amax", include_self=False)
        result = aten.where.ScalarSelf(aten.unsqueeze.default(aten.eq.Scalar(count, 0), 1), 0.0, result)
    else:
        result = aten.scatter_add.default(result, 0, place, rows)
        if mode == 1:
            divisor = aten.unsqueeze.default(aten._to_copy.default(aten.clamp.default(count, 1), dtype=weight.dtype), 1)
            result = aten.div.Tensor(result, divisor)
    return result, bag, count, aten.full.default([0], 0, dtype=torch.int64)


def _divided(total: Any, self: Any, dim: int, index: Any, include_self: bool) -> Any:
    ones = aten.full.default(index.shape, 1, dtype=self.dtype)
    base = aten.full.default(self.shape, 1 if include_self else 0, dtype=self.dtype)
    count = aten.clamp.default(aten.scatter_add.default(base, dim, index, ones), 1)
    if self.is_floating_point():
        return aten.div.Tensor(total, count)
    return aten.div.Tensor_mode(total, count, rounding_mode="floor")


def _by_place(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Sources [J] in the order of their places [M]: those of one place are combined, and the last of them is written.

    Each round combines twice as many, so J sources take O(J log J).
    """
    combine = {"prod": aten.mul.Tensor, "amax": aten.maximum.default, "amin": aten.minimum.default}[reduce]
    neutral = 1 if reduce == "prod" else limit(self.dtype, largest=reduce == "amin")
    for d, size in enumerate(index.shape):
        src = aten.slice.Tensor(src, d, 0, size)
    index, src = (aten.transpose.int(t, dim, -1) for t in (index, src))
    count, places = index.shape[-1], self.shape[dim]
    place, order = aten.sort.default(index, -1)
    values = aten.gather.default(src, -1, order)
    for by in distances(count):
        same = aten.eq.Tensor(place, shifted(place, by, -1))
        values = aten.where.self(same, combine(values, shifted(values, by, neutral)), values)
    following = aten.slice.Tensor(aten.constant_pad_nd.default(place, [0, 1], -1), -1, 1, count + 1)
    nowhere = aten.full.default([], places, dtype=torch.int64)  # a place more, for all but the last
    target = aten.where.self(aten.eq.Tensor(place, following), nowhere, place)
    room = [*index.shape[:-1], places + 1]
    reduced = aten.scatter.src(aten.full.default(room, neutral, dtype=self.dtype), -1, target, values)
    touched = aten.scatter.value(aten.full.default(room, False, dtype=torch.bool), -1, target, True)
    reduced, touched = (aten.slice.Tensor(t, -1, 0, places) for t in (reduced, touched))
    reduced, touched = _fitted(reduced, self, dim, neutral), _fitted(touched, self, dim, False)
    if include_self:
        reduced = combine(reduced, self)
    return aten.where.self(touched, reduced, self)


def _fitted(part: Any, self: Any, dim: int, value: Any) -> Any:
    """`part`, whose last dimension is `dim` of `self`, in place and padded with `value` to the sizes of `self`."""
    part = aten.transpose.int(part, dim, -1)
    missing = [extent - size for extent, size in zip(self.shape, part.shape)]
    if all(isinstance(m, int) and m == 0 for m in missing):
        return part
    return aten.constant_pad_nd.default(part, [edge for m in reversed(missing) for edge in (0, m)], value)


def _long(index: Any) -> Any:
    return aten._to_copy.default(index, dtype=torch.int64)


def _one_dimensional(self: Any) -> tuple[Any, int]:
    return aten.view.default(self, [1]), 0


def _rest(index: Any, src: Any, reduce: str) -> tuple[Any, Any, str]:
    return aten.reshape.default(index, [-1]), aten.reshape.default(src, [-1]), reduce
