"""Pooling: by the kernels in two dimensions, whose windows are products of windows along each dimension."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(self: Any, output_size: Sequence[int]) -> Any:
    if list(output_size) == [1, 1]:
        return aten.mean.dim(self, [-1, -2], True)
    return aten._adaptive_avg_pool2d.default(self, output_size)


@decomposes(aten._adaptive_avg_pool3d.default, aten.adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(self: Any, output_size: Sequence[int]) -> Any:
    if list(output_size) == [1, 1, 1]:
        return aten.mean.dim(self, [-1, -2, -3], True)
    depth, *plane = output_size
    columns, restore = _depth_columns(self)
    pooled = restore(aten._adaptive_avg_pool2d.default(columns, [depth, columns.shape[-1]]))
    planes = _planes(pooled)
    result = aten._adaptive_avg_pool2d.default(planes, plane)
    return aten.view.default(result, [*self.shape[:-3], depth, *plane])


@decomposes(aten.avg_pool3d.default)
def avg_pool3d(
    self: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    if not self.is_floating_point():  # an integer mean of means is not the mean
        return NotImplemented
    kernel, padding = _triple(kernel_size), _triple(padding)
    stride = _triple(stride or kernel_size)
    divisor = None if divisor_override is None else 1
    columns, restore = _depth_columns(self)
    pooled = aten.avg_pool2d.default(
        columns, [kernel[0], 1], [stride[0], 1], [padding[0], 0], ceil_mode, count_include_pad, divisor
    )
    pooled = restore(pooled)
    planes = aten.avg_pool2d.default(
        _planes(pooled), kernel[1:], stride[1:], padding[1:], ceil_mode, count_include_pad, divisor
    )
    result = aten.view.default(planes, [*pooled.shape[:-2], *planes.shape[-2:]])
    return result if divisor_override is None else aten.div.Scalar(result, divisor_override)


@decomposes(aten.max_pool3d.default)
def max_pool3d(
    self: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    kernel, padding, dilation = _triple(kernel_size), _triple(padding), _triple(dilation)
    stride = _triple(stride or kernel_size)
    columns, restore = _depth_columns(self)
    pooled = aten.max_pool2d_with_indices.default(
        columns, [kernel[0], 1], [stride[0], 1], [padding[0], 0], [dilation[0], 1], ceil_mode
    )[0]
    pooled = restore(pooled)
    planes = aten.max_pool2d_with_indices.default(
        _planes(pooled), kernel[1:], stride[1:], padding[1:], dilation[1:], ceil_mode
    )[0]
    return aten.view.default(planes, [*pooled.shape[:-2], *planes.shape[-2:]])


@decomposes(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(self: Any, output_size: Sequence[int]) -> Any:
    """Maxima and their flat indices, window by window where windows differ in size."""
    sizes = self.shape[-len(output_size) :]
    if len(sizes) == 2 and all(size % out == 0 for size, out in zip(sizes, output_size)):
        windows = [size // out for size, out in zip(sizes, output_size)]
        return aten.max_pool2d_with_indices.default(self, windows, windows)
    ranges = [
        [(index * size // out, -(-(index + 1) * size // out)) for index in range(out)]
        for size, out in zip(sizes, output_size)
    ]
    found = [_window_max(self, window) for window in itertools.product(*ranges)]
    lead = self.shape[: -len(sizes)]
    return tuple(aten.view.default(aten.stack.default(parts, -1), [*lead, *output_size]) for parts in zip(*found))


@decomposes(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad_output: Any,
    self: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Any,
) -> Any:
    """The kernel keeps one gradient where windows overlap, instead of their sum."""
    flat = aten.full.default([*self.shape[:-2], self.shape[-2] * self.shape[-1]], 0, dtype=self.dtype)
    places, gradients = (aten.reshape.default(t, [*self.shape[:-2], -1]) for t in (indices, grad_output))
    return aten.view.default(aten.scatter_add.default(flat, -1, places, gradients), self.shape)


def _window_max(self: Any, window: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """The maximum over one window, and its index into the flattened spatial dimensions."""
    sizes = self.shape[-len(window) :]
    part = self
    for dim, (start, end) in enumerate(window, -len(window)):
        part = aten.slice.Tensor(part, dim, start, end)
    value, local = aten.max.dim(aten.reshape.default(part, [*self.shape[: -len(window)], -1]), -1)
    index: Any = 0
    scale = 1
    for (start, end), size in zip(reversed(window), reversed(sizes)):
        length = end - start
        along = aten.add.Scalar(aten.remainder.Scalar(local, length), start)
        index = aten.add.Tensor(aten.mul.Scalar(along, scale), index)
        local = aten.div.Scalar_mode(local, length, rounding_mode="floor")
        scale *= size
    return value, index


def _triple(setting: Sequence[int]) -> list[int]:
    return list(setting) if len(setting) == 3 else [setting[0]] * 3


def _depth_columns(self: Any) -> tuple[Any, Any]:
    """[…, D, H, W] as [*, 1, D, H * W], and what gives a result over D its dimensions back."""
    *lead, depth, height, width = self.shape
    columns = aten.reshape.default(self, [-1, 1, depth, height * width])
    return columns, lambda pooled: aten.view.default(pooled, [*lead, pooled.shape[2], height, width])


def _planes(self: Any) -> Any:
    """[…, D, H, W] as [*, D, H, W]."""
    return aten.reshape.default(self, [-1, *self.shape[-3:]])
