"""Arithmetic on complex numbers: the kernels take two complex tensors of equal dtype and sizes, and nothing else."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.add.Tensor, aten.add.Scalar)
def add(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _of_two(aten.add.Tensor, self, other, alpha)


@decomposes(aten.sub.Tensor, aten.sub.Scalar)
def sub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return _of_two(aten.sub.Tensor, self, other, alpha)


@decomposes(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(self: Any, other: Any, alpha: Any = 1) -> Any:
    if not _complex(self, other):
        return NotImplemented
    return aten.sub.Tensor(_tensor(other, torch.result_type(self, other)), self, alpha=alpha)


@decomposes(aten.mul.Tensor, aten.mul.Scalar)
def mul(self: Any, other: Any) -> Any:
    return _of_two(aten.mul.Tensor, self, other)


@decomposes(aten.div.Tensor, aten.div.Scalar)
def div(self: Any, other: Any) -> Any:
    return _of_two(aten.div.Tensor, self, other)


@decomposes(aten.reciprocal.default)
def reciprocal(self: Any) -> Any:
    return aten.div.Tensor(_tensor(1, self.dtype), self) if self.is_complex() else NotImplemented


@decomposes(aten.neg.default)
def neg(self: Any) -> Any:
    return aten.mul.Tensor(self, _tensor(-1, self.dtype)) if self.is_complex() else NotImplemented


@decomposes(aten.mm.default)
def mm(self: Any, mat2: Any) -> Any:
    """The batched product takes complex numbers."""
    if not self.is_complex():
        return NotImplemented
    return aten.squeeze.dim(aten.bmm.default(aten.unsqueeze.default(self, 0), aten.unsqueeze.default(mat2, 0)), 0)


def _of_two(op: Any, self: Any, other: Any, alpha: Any = 1) -> Any:
    """`op` on both as complex tensors of equal sizes; NotImplemented where they are that, or not complex at all."""
    if not _complex(self, other):
        return NotImplemented
    dtype = torch.result_type(self, other)
    scaled = other if alpha == 1 else aten.mul.Tensor(_tensor(other, dtype), _tensor(alpha, dtype))
    operands = [_tensor(self, dtype), _tensor(scaled, dtype)]
    sizes = torch.broadcast_shapes(*(operand.shape for operand in operands))
    operands = [each if each.shape == sizes else aten.expand.default(each, sizes) for each in operands]
    if operands[0] is self and operands[1] is other:
        return NotImplemented
    return op(*operands)


def _complex(*values: Any) -> bool:
    return any(v.is_complex() if isinstance(v, torch.Tensor) else isinstance(v, complex) for v in values)


def _tensor(value: Any, dtype: torch.dtype) -> Any:
    """A tensor or number as a tensor of complex `dtype`."""
    if not isinstance(value, torch.Tensor):
        return aten.full.default([], value, dtype=dtype)
    if value.dtype == dtype:
        return value
    if not (value.is_floating_point() or value.is_complex()):
        value = aten._to_copy.default(value, dtype=torch.float32)  # integers are not made complex in one step
    return aten._to_copy.default(value, dtype=dtype)
