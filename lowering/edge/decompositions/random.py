"""Random numbers, by the two kernels there are: uniform in [0, 1) and standard normal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.rand_like.default)
def rand_like(self: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return aten.rand.default(self.shape, dtype=dtype or self.dtype)


@decomposes(aten.randn_like.default)
def randn_like(self: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return aten.randn.default(self.shape, dtype=dtype or self.dtype)


@decomposes(aten.randint.default)
def randint(high: int, size: Sequence[Any], *, dtype: torch.dtype | None = torch.int64, **_: Any) -> Any:
    return _integers(0, high, size, dtype or torch.int64)


@decomposes(aten.randint.low)
def randint_low(low: int, high: int, size: Sequence[Any], *, dtype: torch.dtype | None = torch.int64, **_: Any) -> Any:
    return _integers(low, high, size, dtype or torch.int64)


@decomposes(aten.randint_like.default)
def randint_like(self: Any, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _integers(0, high, self.shape, dtype or self.dtype)


@decomposes(aten.randint_like.low_dtype)
def randint_like_low(self: Any, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return _integers(low, high, self.shape, dtype or self.dtype)


@decomposes(aten.randperm.default)
def randperm(n: Any, *, dtype: torch.dtype | None = torch.int64, **_: Any) -> Any:
    """The order of random keys."""
    order = aten.topk.default(aten.rand.default([n]), n)[1]
    return order if dtype in (None, torch.int64) else aten._to_copy.default(order, dtype=dtype)


@decomposes(aten.bernoulli.default)
def bernoulli(self: Any, *, generator: Any = None) -> Any:
    drawn = aten.lt.Tensor(aten.rand.default(self.shape, dtype=self.dtype), self)
    return aten._to_copy.default(drawn, dtype=self.dtype)


@decomposes(aten.bernoulli.p)
def bernoulli_p(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    return aten._to_copy.default(aten.lt.Scalar(aten.rand.default(self.shape), p), dtype=self.dtype)


@decomposes(aten.uniform.default)
def uniform(self: Any, from_: float = 0, to: float = 1, *, generator: Any = None) -> Any:
    return aten.add.Scalar(aten.mul.Scalar(aten.rand.default(self.shape, dtype=self.dtype), to - from_), from_)


@decomposes(aten.normal_functional.default)
def normal(self: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Any:
    return aten.add.Scalar(aten.mul.Scalar(aten.randn.default(self.shape, dtype=self.dtype), std), mean)


def _integers(low: int, high: int, size: Sequence[Any], dtype: torch.dtype) -> Any:
    scaled = aten.mul.Scalar(aten.rand.default(size), high - low)
    return aten._to_copy.default(aten.add.Scalar(aten.floor.default(scaled), low), dtype=dtype)
