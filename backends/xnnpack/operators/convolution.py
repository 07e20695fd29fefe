"""Convolutions of one and two dimensions: plain, grouped, depthwise and transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..builder import Builder, need_constant
from ..graph import Layout, Unsupported, Value
from ..schema import DataType
from .table import operator

aten = torch.ops.aten


@operator(aten.convolution.default)
def convolution(
    b: Builder, val: Any, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """x [N, C, H, W] or [N, C, L]; weight [O, C/groups, kH, kW], or [C, O/groups, kH, kW] if transposed."""
    need_constant(weight, "its weight")
    if bias is not None:
        need_constant(bias, "its bias")
    if x.rank not in (3, 4) or not all(isinstance(size, int) for size in x.sizes[1:2]):
        raise Unsupported("XNNPACK has convolutions of one and two dimensions")
    if x.dtype == DataType.FLOAT16:  # XNNPACK wants the weights of such convolutions as floats
        weight, bias = (v and b.converted(v, DataType.FLOAT32) for v in (weight, bias))
    one_dimensional = x.rank == 3
    if one_dimensional:  # as an image of height one
        x = _image(b, x)
        sizes = (*weight.sizes[:2], 1, weight.sizes[2])
        weight = b.derived(weight, lambda w: w.unsqueeze(2), sizes, channels=_same(transposed))
        stride, dilation = (1, *stride), (1, *dilation)
        padding, output_padding = (0, *padding), (0, *output_padding)
    sizes = tuple(val.shape) if not one_dimensional else (*val.shape[:2], 1, val.shape[2])
    make = _transposed if transposed else _plain
    result = make(b, sizes, x, weight, bias, stride, padding, dilation, output_padding, groups)
    return b.reshape(result, tuple(val.shape)) if one_dimensional else result


def _same(transposed: bool) -> tuple[int, int]:
    """The dimension of the output channels, before and after a change that leaves it where it is."""
    return (1, 1) if transposed else (0, 0)


def _image(b: Builder, x: Value) -> Value:
    """[N, C, L] → [N, C, 1, L]."""
    sizes = (*x.sizes[:2], 1, x.sizes[2])
    return b.reshape(x, sizes)


def _plain(
    b: Builder, sizes: Any, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    outputs, group_inputs, height, width = weight.sizes
    window = _window(stride, padding, dilation, (height, width), (0, 0))
    channels = {"group_input_channels": group_inputs, "group_output_channels": outputs // groups, "groups": groups}
    if groups > 1 and group_inputs == 1:  # [C*m, 1, kH, kW] → [1, kH, kW, C*m]
        filters = b.derived(weight, lambda w: w.permute(1, 2, 3, 0), (1, height, width, outputs), channels=(0, 3))
        return b.node("DepthwiseConv2d", [x, filters, bias], sizes, layout=Layout.CHANNELS_LAST, **window, **channels)
    sizes_ = (outputs, height, width, group_inputs)
    filters = b.derived(weight, lambda w: w.permute(0, 2, 3, 1), sizes_, channels=(0, 0))
    return b.node("Conv2d", [x, filters, bias], sizes, layout=Layout.CHANNELS_LAST, **window, **channels)


def _transposed(
    b: Builder, sizes: Any, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,
    output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    inputs, group_outputs, height, width = weight.sizes

    def filters(w: torch.Tensor) -> torch.Tensor:
        """[g*I, O, kH, kW] → [g*O, kH, kW, I]."""
        w = w.reshape(groups, inputs // groups, group_outputs, height, width)
        return w.permute(0, 2, 3, 4, 1).reshape(groups * group_outputs, height, width, inputs // groups)

    sizes_ = (groups * group_outputs, height, width, inputs // groups)
    reordered = b.derived(weight, filters, sizes_, channels=(1, 0), groups=groups)
    window = _window(stride, padding, dilation, (height, width), output_padding)
    return b.node(
        "ConvTranspose2d", [x, reordered, bias], sizes, layout=Layout.CHANNELS_LAST, **window,
        group_input_channels=inputs // groups, group_output_channels=group_outputs, groups=groups,
    )  # fmt: skip


def _window(stride: Any, padding: Any, dilation: Any, kernel: Any, adjustment: Any) -> dict[str, int]:
    if any(p < 0 for p in padding) or math.prod(kernel) == 0:
        raise Unsupported("its padding is negative, or its kernel empty")
    top, left = padding
    return {
        "padding_top": top, "padding_right": left, "padding_bottom": top, "padding_left": left,
        "kernel_height": kernel[0], "kernel_width": kernel[1],
        "subsampling_height": stride[0], "subsampling_width": stride[1],
        "dilation_height": dilation[0], "dilation_width": dilation[1],
        "adjustment_height": adjustment[0], "adjustment_width": adjustment[1],
    }  # fmt: skip
