"""Elementwise operators without a kernel, or whose kernel gives other results than PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.fmax.default)
def fmax(self: Any, other: Any) -> Any:
    return _ignoring_nan(aten.maximum.default, self, other)


@decomposes(aten.fmin.default)
def fmin(self: Any, other: Any) -> Any:
    return _ignoring_nan(aten.minimum.default, self, other)


@decomposes(aten.hypot.default)
def hypot(self: Any, other: Any) -> Any:
    return aten.sqrt.default(aten.add.Tensor(aten.mul.Tensor(self, self), aten.mul.Tensor(other, other)))


@decomposes(aten.exp2.default)
def exp2(self: Any) -> Any:
    return aten.pow.Scalar(2.0, self)


@decomposes(aten.signbit.default)
def signbit(self: Any) -> Any:
    """Whether the sign is minus; minus zero is told by its reciprocal."""
    if self.dtype == torch.bool:
        return aten.full.default(self.shape, False, dtype=torch.bool)
    negative = aten.lt.Scalar(self, 0)
    if not self.is_floating_point():
        return negative
    minus_zero = aten.logical_and.default(aten.eq.Scalar(self, 0), aten.lt.Scalar(aten.reciprocal.default(self), 0))
    return aten.logical_or.default(negative, minus_zero)


@decomposes(aten.copysign.Tensor)
def copysign(self: Any, other: Any) -> Any:
    dtype = torch.result_type(self, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    magnitude = aten.abs.default(_as_dtype(self, dtype))
    return aten.where.self(aten.signbit.default(other), aten.neg.default(magnitude), magnitude)


@decomposes(aten.round.decimals)
def round_decimals(self: Any, *, decimals: int) -> Any:
    if not self.is_floating_point():
        return aten.clone.default(self)
    scale = 10.0 ** abs(decimals)
    if decimals < 0:
        return aten.mul.Scalar(aten.round.default(aten.div.Scalar(self, scale)), scale)
    return aten.div.Scalar(aten.round.default(aten.mul.Scalar(self, scale)), scale)


@decomposes(aten.remainder.Tensor)
def remainder(self: Any, other: Any) -> Any:
    # The runtime's kernel gives integers the sign of the dividend.
    if not isinstance(other, torch.Tensor) or torch.result_type(self, other).is_floating_point:
        return NotImplemented
    quotient = aten.div.Tensor_mode(self, other, rounding_mode="floor")
    return aten.sub.Tensor(self, aten.mul.Tensor(quotient, other))


@decomposes(aten.remainder.Scalar)
def remainder_scalar(self: Any, other: Any) -> Any:
    if torch.result_type(self, other).is_floating_point:
        return NotImplemented
    quotient = aten.div.Scalar_mode(self, other, rounding_mode="floor")
    return aten.sub.Tensor(self, aten.mul.Scalar(quotient, other))


@decomposes(aten.__lshift__.Scalar)
def left_shift(self: Any, other: Any) -> Any:
    return aten.bitwise_left_shift.Tensor_Scalar(self, other)


@decomposes(aten.__rshift__.Scalar)
def right_shift(self: Any, other: Any) -> Any:
    return aten.bitwise_right_shift.Tensor_Scalar(self, other)


@decomposes(aten.__lshift__.Tensor)
def left_shift_by(self: Any, other: Any) -> Any:
    return aten.bitwise_left_shift.Tensor(self, other)


@decomposes(aten.__rshift__.Tensor)
def right_shift_by(self: Any, other: Any) -> Any:
    return aten.bitwise_right_shift.Tensor(self, other)


@decomposes(aten._log_softmax.default)
def log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    """The kernel has no double."""
    if self.dtype != torch.float64 or self.dim() == 0:
        return NotImplemented
    shifted = aten.sub.Tensor(self, aten.amax.default(self, [dim], True))
    return aten.sub.Tensor(shifted, aten.log.default(aten.sum.dim_IntList(aten.exp.default(shifted), [dim], True)))


@decomposes(aten.logit.default)
def logit(self: Any, eps: float | None = None) -> Any:
    """The kernel has no half precision."""
    if self.dtype not in (torch.float16, torch.bfloat16):
        return NotImplemented
    return aten._to_copy.default(aten.logit.default(_as_dtype(self, torch.float32), eps), dtype=self.dtype)


@decomposes(aten.angle.default)
def angle(self: Any) -> Any:
    if self.dtype.is_complex:
        return NotImplemented
    dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    real = _as_dtype(self, dtype)
    result = aten.mul.Scalar(_as_dtype(aten.lt.Scalar(real, 0), dtype), math.pi)
    return aten.where.self(aten.isnan.default(real), real, result) if self.is_floating_point() else result


@decomposes(aten.logaddexp2.default)
def logaddexp2(self: Any, other: Any) -> Any:
    larger = aten.maximum.default(self, other)
    distance = aten.neg.default(aten.abs.default(aten.sub.Tensor(self, other)))
    result = aten.add.Tensor(larger, aten.log2.default(aten.add.Scalar(aten.pow.Scalar(2.0, distance), 1)))
    return aten.where.self(aten.eq.Tensor(self, other), aten.add.Scalar(larger, 1), result)


def _ignoring_nan(combine: Any, self: Any, other: Any) -> Any:
    result = combine(self, other)
    if not result.is_floating_point():
        return result
    result = aten.where.self(aten.isnan.default(self), other, result)
    return aten.where.self(aten.isnan.default(other), self, result)


def _as_dtype(self: Any, dtype: torch.dtype) -> Any:
    return self if self.dtype == dtype else aten._to_copy.default(self, dtype=dtype)
