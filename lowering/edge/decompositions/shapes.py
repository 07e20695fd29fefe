"""Views and parts of tensors that have no kernel, or one that does not follow sizes that change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.squeeze_copy.default)
def squeeze(self: Any) -> Any:
    kept = [size for size in self.shape if not (isinstance(size, int) and size == 1)]
    return aten.view.default(self, kept)


# The kernels that return lists do not resize their results.


@decomposes(aten.split_copy.Tensor)
def split(self: Any, split_size: int, dim: int = 0) -> Any:
    if _static(self):
        return NotImplemented
    pieces = -(-self.shape[dim] // split_size)
    return [aten.slice.Tensor(self, dim, i * split_size, (i + 1) * split_size) for i in range(int(pieces))]


@decomposes(aten.split_with_sizes_copy.default)
def split_with_sizes(self: Any, split_sizes: Sequence[Any], dim: int = 0) -> Any:
    if _static(self):
        return NotImplemented
    starts = [sum(split_sizes[:i]) for i in range(len(split_sizes))]
    return [aten.slice.Tensor(self, dim, start, start + size) for start, size in zip(starts, split_sizes)]


@decomposes(aten.unbind_copy.int)
def unbind(self: Any, dim: int = 0) -> Any:
    if _static(self):
        return NotImplemented
    return [aten.select.int(self, dim, i) for i in range(int(self.shape[dim]))]


@decomposes(aten._unsafe_view.default)
def unsafe_view(self: Any, size: Sequence[Any]) -> Any:
    return aten.view_copy.default(self, size)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(self: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal's elements are told from the others by their indices."""
    rank = self.dim()
    rows, columns = (_index_along(self, dim % rank) for dim in (dim1, dim2))
    on_diagonal = aten.eq.Tensor(aten.sub.Tensor(columns, rows), aten.full.default([], offset, dtype=torch.int64))
    # src […, L] has the diagonal last: place it along dim1 if the diagonal starts in the first row, else along dim2.
    spread = _spread_diagonal(src, self, offset, dim1 % rank, dim2 % rank)
    return aten.where.self(on_diagonal, spread, self)


@decomposes(aten.masked_select.default)
def masked_select(self: Any, mask: Any) -> Any:
    """PyTorch bounds the result by the size of `self`, also where the mask is larger."""
    if self.shape == mask.shape:
        return NotImplemented
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    return aten.masked_select.default(aten.expand.default(self, shape), aten.expand.default(mask, shape))


@decomposes(aten.linear.default)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """The kernel wants an input of two dimensions or more."""
    if input.dim() != 1 or weight.dim() != 2:
        return NotImplemented
    row = aten.linear.default(aten.unsqueeze.default(input, 0), weight, bias)
    return aten.squeeze.dim(row, 0)


@decomposes(aten.sum.dim_IntList)
def sum_of_number(self: Any, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """The kernel ends the process on a tensor without dimensions."""
    if self.dim() or not dim:
        return NotImplemented
    return aten.sum.dim_IntList(aten.view.default(self, [1]), [0], dtype=dtype)


@decomposes(aten.amax.default, aten.amin.default)
def extreme_of_nothing(self: Any, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    """The kernel ends the process on a tensor without elements, also where there are no results."""
    if not _static(self) or self.numel():
        return NotImplemented
    shape = aten.sum.dim_IntList(self, dim, keepdim).shape  # what eager refuses has been refused by export
    return aten.full.default(shape, 0, dtype=self.dtype)


@decomposes(aten.narrow_copy.default)
def narrow(self: Any, dim: int, start: Any, length: Any) -> Any:
    """The kernel counts dimensions from the front only."""
    return NotImplemented if dim >= 0 else aten.narrow_copy.default(self, dim + self.dim(), start, length)


@decomposes(aten.roll.default)
def roll(self: Any, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Any:
    """The kernel rolls along dimensions only; without any, PyTorch rolls the elements in their order in memory."""
    if dims or self.dim() <= 1 and self.dim() == len(dims):
        return NotImplemented
    return aten.view.default(aten.roll.default(aten.reshape.default(self, [-1]), shifts, [0]), self.shape)


@decomposes(aten.constant_pad_nd.default)
def constant_pad(self: Any, pad: Sequence[Any], value: Any = 0) -> Any:
    """The kernel only adds; a negative edge cuts off."""
    if not any(isinstance(edge, int) and edge < 0 for edge in pad):
        return NotImplemented
    for index in range(0, len(pad), 2):
        dim = self.dim() - 1 - index // 2
        before, after = (max(-edge, 0) if isinstance(edge, int) else 0 for edge in pad[index : index + 2])
        if before or after:
            self = aten.slice.Tensor(self, dim, before, self.shape[dim] - after)
    return aten.constant_pad_nd.default(self, [max(e, 0) if isinstance(e, int) else e for e in pad], value)


@decomposes(aten.cumsum.default)
def cumsum(self: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Of one number, the number: the kernel refuses it."""
    if self.dim():
        return NotImplemented
    result_type = dtype or (self.dtype if self.is_floating_point() else torch.int64)
    return self if result_type == self.dtype else aten._to_copy.default(self, dtype=result_type)


@decomposes(aten.view_as_complex_copy.default)
def view_as_complex(self: Any) -> Any:
    """Pairs of real numbers lie in memory as complex numbers do."""
    dtype = {torch.float32: torch.complex64, torch.float64: torch.complex128, torch.float16: torch.complex32}
    return aten.squeeze.dim(aten.view.dtype(self, dtype[self.dtype]), -1)


@decomposes(aten.complex.default)
def complex_of(real: Any, imag: Any) -> Any:
    pairs = torch.broadcast_tensors(real, imag)
    return aten.view_as_complex.default(aten.stack.default(list(pairs), -1))


@decomposes(aten.polar.default)
def polar(abs: Any, angle: Any) -> Any:
    real, imag = (aten.mul.Tensor(abs, function(angle)) for function in (aten.cos.default, aten.sin.default))
    return aten.complex.default(real, imag)


def _static(self: Any) -> bool:
    return all(isinstance(size, int) for size in self.shape)


def _index_along(self: Any, dim: int) -> Any:
    shape = [1] * self.dim()
    shape[dim] = -1
    return aten.view.default(aten.arange.default(self.shape[dim]), shape)


def _spread_diagonal(src: Any, self: Any, offset: int, dim1: int, dim2: int) -> Any:
    along, start = (dim1, 0) if offset >= 0 else (dim2, 0)
    length = self.shape[along]
    padded = aten.constant_pad_nd.default(src, [start, length - src.shape[-1]])
    # […, length] with dim1 and dim2 removed → the removed ones back, size one but for `along`.
    first, second = sorted((dim1, dim2))
    order = [d for d in range(self.dim()) if d not in (dim1, dim2)]
    view = aten.unsqueeze.default(padded, -1)  # [others…, along, 1]
    axes = [*order, along, second if along == first else first]
    return aten.permute.default(view, [axes.index(d) for d in range(self.dim())])
