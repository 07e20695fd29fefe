"""Convolutions in three dimensions, by those in two: the runtime has one and two only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.convolution.default)
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """input [N, C, D, H, W]; weight [O, C/groups, d, h, w], or [C, O/groups, d, h, w] if transposed."""
    if input.dim() != 5:
        return NotImplemented
    stride, padding, dilation, output_padding = (
        list(setting) if len(setting) == 3 else [setting[0]] * 3
        for setting in (stride, padding, dilation, output_padding)
    )
    by_depth = aten.permute.default(input, [0, 2, 1, 3, 4])  # [N, D, C, H, W]
    convolve = _transposed if transposed else _plain
    return convolve(by_depth, weight, bias, stride, padding, dilation, output_padding, groups)


def _plain(
    by_depth: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> Any:
    """The slices of the input that meet each of the kernel's slices become further channels."""
    kernel = weight.shape[2]
    by_depth = aten.constant_pad_nd.default(by_depth, [0, 0, 0, 0, 0, 0, padding[0], padding[0]])
    batch, depth, channels, height, width = by_depth.shape
    out_depth = (depth - dilation[0] * (kernel - 1) - 1) // stride[0] + 1
    parts = []
    for index in range(kernel):
        start = index * dilation[0]
        parts.append(aten.slice.Tensor(by_depth, 1, start, start + (out_depth - 1) * stride[0] + 1, stride[0]))
    planes = aten.view.default(aten.stack.default(parts, 3), [batch * out_depth, channels * kernel, height, width])
    flat_weight = aten.reshape.default(weight, [weight.shape[0], weight.shape[1] * kernel, *weight.shape[3:]])
    result = aten.convolution.default(
        planes, flat_weight, bias, stride[1:], padding[1:], dilation[1:], False, [0, 0], groups
    )
    return _depth_second(result, batch, out_depth)


def _transposed(
    by_depth: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> Any:
    """Each slice of the input makes one slice of output per slice of the kernel; those that meet are added."""
    batch, depth, channels, height, width = by_depth.shape
    kernel = weight.shape[2]
    planes = aten.reshape.default(by_depth, [batch * depth, channels, height, width])
    flat_weight = aten.reshape.default(weight, [weight.shape[0], weight.shape[1] * kernel, *weight.shape[3:]])
    made = aten.convolution.default(
        planes, flat_weight, None, stride[1:], padding[1:], dilation[1:], True, output_padding[1:], groups
    )
    out_channels, out_height, out_width = weight.shape[1] * groups, *made.shape[2:]
    made = aten.view.default(made, [batch, depth, out_channels, kernel, out_height, out_width])
    spread = (depth - 1) * stride[0] + 1
    full = spread + dilation[0] * (kernel - 1) + output_padding[0]
    total = None
    for index in range(kernel):
        part = _spread(aten.select.int(made, 3, index), stride[0], spread)
        before = index * dilation[0]
        part = aten.constant_pad_nd.default(part, [0, 0, 0, 0, 0, 0, before, full - spread - before])
        total = part if total is None else aten.add.Tensor(total, part)
    out_depth = full - 2 * padding[0]
    total = aten.slice.Tensor(total, 1, padding[0], padding[0] + out_depth)
    result = aten.permute.default(total, [0, 2, 1, 3, 4])
    return result if bias is None else aten.add.Tensor(result, aten.view.default(bias, [1, out_channels, 1, 1, 1]))


def _spread(part: Any, stride: int, length: Any) -> Any:
    """[N, D, …] with stride - 1 planes of zeros after each along D but the last."""
    if stride == 1:
        return part
    batch, depth, *rest = part.shape
    padded = aten.constant_pad_nd.default(aten.unsqueeze.default(part, 2), [0, 0] * len(rest) + [0, stride - 1])
    return aten.slice.Tensor(aten.view.default(padded, [batch, depth * stride, *rest]), 1, 0, length)


def _depth_second(planes: Any, batch: Any, depth: Any) -> Any:
    """[N * D, C, H, W] → [N, C, D, H, W]."""
    return aten.permute.default(aten.view.default(planes, [batch, depth, *planes.shape[1:]]), [0, 2, 1, 3, 4])
