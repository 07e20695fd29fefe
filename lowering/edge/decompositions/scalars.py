"""Python numbers stay numbers: operators that were given one for a tensor become those that take scalars."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.add.Tensor)
def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return NotImplemented if isinstance(other, torch.Tensor) else aten.add.Scalar(self, other, alpha)


@decomposes(aten.sub.Tensor)
def sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return NotImplemented if isinstance(other, torch.Tensor) else aten.sub.Scalar(self, other, alpha)


@decomposes(aten.mul.Tensor)
def mul(self: Any, other: Any) -> Any:
    return NotImplemented if isinstance(other, torch.Tensor) else aten.mul.Scalar(self, other)


@decomposes(aten.div.Tensor)
def div(self: Any, other: Any) -> Any:
    return NotImplemented if isinstance(other, torch.Tensor) else aten.div.Scalar(self, other)


@decomposes(aten.div.Tensor_mode)
def div_mode(self: Any, other: Any, *, rounding_mode: str | None) -> Any:
    if isinstance(other, torch.Tensor):
        return NotImplemented
    return aten.div.Scalar_mode(self, other, rounding_mode=rounding_mode)


@decomposes(aten.add.Scalar)
def add_scalar(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _promoted(aten.add.Scalar, self, other, alpha)


@decomposes(aten.sub.Scalar)
def sub_scalar(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _promoted(aten.sub.Scalar, self, other, alpha)


def _promoted(op: Any, self: Any, other: Any, alpha: Any) -> Any:
    """The kernels take no scalar that would change the dtype, such as 0.5 with integers."""
    dtype = torch.result_type(self, other)
    return NotImplemented if dtype == self.dtype else op(aten._to_copy.default(self, dtype=dtype), other, alpha)
