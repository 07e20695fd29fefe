"""Pooling and resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..builder import Builder
from ..graph import Layout, Unsupported, Value, is_static
from ..schema import ALIGN_CORNERS
from .table import operator

aten = torch.ops.aten


@operator(aten.max_pool2d.default)
def max_pool2d(
    b: Builder, val: Any, x: Value, kernel_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0), dilation: Sequence[int] = (1, 1), ceil_mode: bool = False,
) -> Value:  # fmt: skip
    return _max_pool(b, val, x, kernel_size, stride, padding, dilation, ceil_mode)


@operator(aten.max_pool2d_with_indices.default)
def max_pool2d_with_indices(
    b: Builder, val: Any, x: Value, kernel_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0), dilation: Sequence[int] = (1, 1), ceil_mode: bool = False,
) -> tuple[Value | None, ...]:  # fmt: skip
    return _max_pool(b, val[0], x, kernel_size, stride, padding, dilation, ceil_mode), None


def _max_pool(
    b: Builder, val: Any, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Value:
    kernel, stride, padding, dilation = _pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation)
    if math.prod(kernel) == 1:
        raise Unsupported("its window is one pixel")
    if any(s > k for s, k in zip(stride, kernel)):
        raise Unsupported("its stride is larger than its window")
    return _pool(b, "MaxPooling2d", val, x, kernel, stride, padding, dilation, ceil_mode)


@operator(aten.avg_pool2d.default)
def avg_pool2d(
    b: Builder, val: Any, x: Value, kernel_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:  # fmt: skip
    kernel, stride, padding = _pair(kernel_size), _pair(stride or kernel_size), _pair(padding)
    if ceil_mode:
        raise Unsupported("it rounds its size up, and the windows beyond the edge have other divisors")
    area = math.prod(kernel)
    if area == 1:
        raise Unsupported("its window is one pixel")
    if any(padding) and (count_include_pad or divisor_override):  # XNNPACK counts only what is in the image
        x = _zero_padded(b, x, padding)
        padding = (0, 0)
    result = _pool(b, "AvgPooling2d", val, x, kernel, stride, padding, (1, 1), False)
    return result if divisor_override in (None, area) else b.binary("Multiply", result, area / divisor_override)


@operator(aten._adaptive_avg_pool2d.default, aten.adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(b: Builder, val: Any, x: Value, output_size: Sequence[int]) -> Value:
    if x.rank == 4 and tuple(output_size) == (1, 1):
        return b.image_mean(x)
    if not is_static(x.sizes) or any(size % out for size, out in zip(x.sizes[-2:], output_size)):
        raise Unsupported("its windows are not all of one size")
    kernel = tuple(size // out for size, out in zip(x.sizes[-2:], output_size))
    if kernel == (1, 1):
        return b.unary("Copy", x)
    return _pool(b, "AvgPooling2d", val, x, kernel, kernel, (0, 0), (1, 1), False)


@operator(aten.max.dim)
def max_dim(b: Builder, val: Any, x: Value, dim: int, keepdim: bool = False) -> tuple[Value | None, ...]:
    """The largest values along one dimension: pooling with a window as long as it. Indices are left out."""
    return amax(b, val[0], x, [dim], keepdim), None


@operator(aten.amax.default)
def amax(b: Builder, val: Any, x: Value, dims: Sequence[int] = (), keepdim: bool = False) -> Value:
    """Pooling over an image of the kept sizes before, the reduced ones, and the kept ones after as channels."""
    if not is_static(x.sizes):
        raise Unsupported("it has dynamic sizes")
    dims = sorted({d % x.rank for d in dims}) or list(range(x.rank))
    if dims != list(range(dims[0], dims[-1] + 1)):
        raise Unsupported("its dimensions are not side by side")
    before, length = x.sizes[: dims[0]], math.prod(x.sizes[d] for d in dims)
    after = math.prod(x.sizes[dims[-1] + 1 :])
    if length == 1:
        return b.reshape(x, tuple(val.shape))
    image = b.reshape(x, (math.prod(before), length, 1, after))
    image = b.transpose(image, [0, 3, 1, 2])  # free: the pool wants the channels last
    sizes = (math.prod(before), after, 1, 1)
    pooled = _pool_node(b, "MaxPooling2d", sizes, image, (length, 1), (length, 1), (0, 0, 0, 0), (1, 1))
    return b.reshape(pooled, tuple(val.shape))


@operator(aten.amin.default)
def amin(b: Builder, val: Any, x: Value, dims: Sequence[int] = (), keepdim: bool = False) -> Value:
    return b.unary("Negate", amax(b, val, b.unary("Negate", x), dims, keepdim))


@operator(aten.upsample_bilinear2d.vec)
def upsample_bilinear2d_vec(
    b: Builder, val: Any, x: Value, output_size: Any, align_corners: bool, scale_factors: Any
) -> Value:
    _check_scale(x, val, scale_factors, align_corners)
    return _resize(b, val, x, align_corners)


@operator(aten.upsample_bilinear2d.default)
def upsample_bilinear2d(
    b: Builder, val: Any, x: Value, output_size: Any, align_corners: bool, scales_h: Any = None, scales_w: Any = None
) -> Value:
    _check_scale(x, val, (scales_h, scales_w) if scales_h and scales_w else None, align_corners)
    return _resize(b, val, x, align_corners)


def _check_scale(x: Value, val: Any, scales: Any, align_corners: bool) -> None:
    """PyTorch uses a given scale as it is; XNNPACK the ratio of sizes."""
    if not is_static(x.sizes[2:]) or not is_static(val.shape[2:]):
        raise Unsupported("XNNPACK resizes to a static size")
    if scales and not align_corners:
        if any(abs(size * scale - out) > 1e-6 for size, scale, out in zip(x.sizes[2:], scales, val.shape[2:])):
            raise Unsupported("its scale is not the ratio of its sizes")


def _resize(b: Builder, val: Any, x: Value, align_corners: bool) -> Value:
    height, width = val.shape[2:]
    return b.node(
        "StaticResizeBilinear2D", [x], tuple(val.shape), layout=Layout.CHANNELS_LAST,
        new_height=height, new_width=width, flags=ALIGN_CORNERS if align_corners else 0,
    )  # fmt: skip


def _zero_padded(b: Builder, x: Value, padding: tuple[int, int]) -> Value:
    around = (0,) * (x.rank - 2) + padding
    sizes = [size if p == 0 else size + 2 * p for size, p in zip(x.sizes, around)]
    return b.node("StaticConstantPad", [x], sizes, pre_paddings=around, post_paddings=around, padding_value=0.0)


def _pool(
    b: Builder, kind: str, val: Any, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Value:
    """A pool whose right and bottom padding make as many windows as PyTorch has. x may lack the batch."""
    top, left = padding
    bottom, right = padding
    if ceil_mode:
        if not is_static((*x.sizes[-2:], *val.shape[-2:])):
            raise Unsupported("it rounds a dynamic size up")
        bottom, right = (
            max((out - 1) * s + d * (k - 1) + 1 - size - p, 0)
            for size, out, k, s, p, d in zip(x.sizes[-2:], val.shape[-2:], kernel, stride, padding, dilation)
        )
    sizes = tuple(val.shape)
    if x.rank == 3:
        x = b.reshape(x, (1, *x.sizes))
        pooled = _pool_node(b, kind, (1, *sizes), x, kernel, stride, (top, right, bottom, left), dilation)
        return b.reshape(pooled, sizes)
    return _pool_node(b, kind, sizes, x, kernel, stride, (top, right, bottom, left), dilation)


def _pool_node(
    b: Builder, kind: str, sizes: Any, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Value:
    top, right, bottom, left = padding
    return b.node(
        kind, [x], sizes, layout=Layout.CHANNELS_LAST,
        padding_top=top, padding_right=right, padding_bottom=bottom, padding_left=left,
        pooling_height=kernel[0], pooling_width=kernel[1], stride_height=stride[0], stride_width=stride[1],
        dilation_height=dilation[0], dilation_width=dilation[1],
    )  # fmt: skip


def _pair(numbers: Sequence[int]) -> tuple[int, int]:
    pair = tuple(numbers)
    return (pair[0], pair[0]) if len(pair) == 1 else (pair[0], pair[1])
