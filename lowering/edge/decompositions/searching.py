"""Finding values among others: by halving a sorted sequence."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes
from .scans import distances

aten = torch.ops.aten

# Up to so many candidates, comparing with each is quicker than sorting them.
_FEW = 16


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
    """How many elements of a sequence [n] or […, n] are before each value [*] or […, m], in O(m log n).

    Found bit by bit, the highest first: so many more are before the value if the last of them is.
    """
    if sorter is not None:
        sorted_sequence = aten.gather.default(sorted_sequence, -1, sorter)
    size = sorted_sequence.shape[-1]
    values = aten.reshape.default(self, [-1]) if sorted_sequence.dim() == 1 else self
    after = aten.gt.Tensor if right or side == "right" else aten.ge.Tensor
    # One element more, so that there is one to look at beyond the end; it is not counted.
    padded = aten.constant_pad_nd.default(sorted_sequence, [0, 1], 0)
    count = aten.full.default(values.shape, 0, dtype=torch.int64)
    for step in reversed(distances(size + 1)):
        more = aten.add.Scalar(count, step)
        looked_at = aten.gather.default(padded, -1, aten.clamp.default(aten.sub.Scalar(more, 1), None, size))
        before = aten.logical_not.default(after(looked_at, values))
        within = aten.le.Scalar(more, size)
        count = aten.where.self(aten.logical_and.default(before, within), more, count)
    count = aten.view.default(count, self.shape)
    return aten._to_copy.default(count, dtype=torch.int32) if out_int32 else count


@decomposes(aten.searchsorted.Scalar)
def searchsorted_number(sorted_sequence: Any, self: Any, **settings: Any) -> Any:
    dtype = torch.float32 if isinstance(self, float) else torch.int64
    return aten.searchsorted.Tensor(sorted_sequence, aten.full.default([], self, dtype=dtype), **settings)


@decomposes(aten.bucketize.Tensor)
def bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return aten.searchsorted.Tensor(boundaries, self, out_int32=out_int32, right=right)


@decomposes(aten.isin.Tensor_Tensor)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    candidates = aten.reshape.default(test_elements, [-1])
    size = candidates.shape[0]
    if isinstance(size, int) and size <= _FEW:
        found = aten.any.dim(aten.eq.Tensor(aten.unsqueeze.default(elements, -1), candidates), -1)
    else:
        ordered = aten.sort.default(candidates)[0]
        values = aten.reshape.default(elements, [-1])
        place = aten.searchsorted.Tensor(ordered, values)
        met = aten.gather.default(aten.constant_pad_nd.default(ordered, [0, 1], 0), 0, place)
        found = aten.logical_and.default(aten.eq.Tensor(met, values), aten.lt.Scalar(place, size))
        found = aten.view.default(found, elements.shape)
    return aten.logical_not.default(found) if invert else found
