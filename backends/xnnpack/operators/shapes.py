"""Views, parts and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..builder import Builder
from ..graph import Unsupported, Value
from .table import operator

aten = torch.ops.aten


@operator(aten.view_copy.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints)
@operator(aten.unsqueeze_copy.default, aten.squeeze_copy.dim, aten.squeeze_copy.dims)
def view(b: Builder, val: Any, x: Value, *arguments: Any) -> Value:
    """Whatever the arguments, PyTorch has said which sizes result."""
    return b.reshape(x, tuple(val.shape))


@operator(aten.permute_copy.default)
def permute(b: Builder, val: Any, x: Value, dims: Sequence[int]) -> Value:
    return b.transpose(x, dims)


@operator(aten.transpose_copy.int)
def transpose(b: Builder, val: Any, x: Value, first: int, second: int) -> Value:
    order = list(range(x.rank))
    if order:
        order[first], order[second] = order[second], order[first]
    return b.transpose(x, order)


@operator(aten.t_copy.default)
def t(b: Builder, val: Any, x: Value) -> Value:
    return b.transpose(x, list(reversed(range(x.rank))))


@operator(aten.slice_copy.Tensor)
def slice_(b: Builder, val: Any, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    dim %= x.rank
    length = val.shape[dim]
    size = x.sizes[dim]
    if not isinstance(start or 0, int) or not isinstance(length, int):
        raise Unsupported("its bounds are dynamic")
    start = start or 0
    if start < 0:
        if not isinstance(size, int):
            raise Unsupported("it counts from the end of a dynamic dimension")
        start = max(start + size, 0)
    return b.slice(x, dim, start, length) if step == 1 else _strided(b, x, dim, start, length, step)


def _strided(b: Builder, x: Value, dim: int, start: int, length: int, step: int) -> Value:
    """One column of a matrix with a row for each step, which must lie within x."""
    size = x.sizes[dim]
    if not isinstance(size, int):
        raise Unsupported("it takes steps along a dynamic dimension")
    first = min(start, size - length * step)
    if first < 0 or start - first >= step:
        raise Unsupported("its last step goes beyond the end, and XNNPACK's slices are dense")
    before, after = x.sizes[:dim], x.sizes[dim + 1 :]
    rows = b.reshape(b.slice(x, dim, first, length * step), (*before, length, step, *after))
    return b.reshape(b.slice(rows, dim + 1, start - first, 1), (*before, length, *after))


@operator(aten.select_copy.int)
def select(b: Builder, val: Any, x: Value, dim: int, index: Any) -> Value:
    dim %= x.rank
    size = x.sizes[dim]
    if not isinstance(index, int) or (index < 0 and not isinstance(size, int)):
        raise Unsupported("its index is dynamic")
    part = b.slice(x, dim, index if index >= 0 else index + size, 1)
    return b.reshape(part, tuple(val.shape))


@operator(aten.split_copy.Tensor)
def split(b: Builder, val: Any, x: Value, split_size: int, dim: int = 0) -> tuple[Value, ...]:
    return _parts(b, val, x, dim)


@operator(aten.split_with_sizes_copy.default)
def split_with_sizes(b: Builder, val: Any, x: Value, split_sizes: Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    return _parts(b, val, x, dim)


def _parts(b: Builder, val: Sequence[torch.Tensor], x: Value, dim: int) -> tuple[Value, ...]:
    dim %= x.rank
    lengths = [part.shape[dim] for part in val]
    if not all(isinstance(length, int) for length in lengths):
        raise Unsupported("its parts are of dynamic sizes")
    return tuple(b.slice(x, dim, sum(lengths[:i]), length) for i, length in enumerate(lengths))


@operator(aten.unbind_copy.int)
def unbind(b: Builder, val: Sequence[torch.Tensor], x: Value, dim: int = 0) -> tuple[Value, ...]:
    dim %= x.rank
    return tuple(b.reshape(b.slice(x, dim, i, 1), tuple(part.shape)) for i, part in enumerate(val))


@operator(aten.cat.default)
def cat(b: Builder, val: Any, tensors: Sequence[Value], dim: int = 0) -> Value:
    parts = [x for x in tensors if not (x.rank == 1 and x.sizes[0] == 0 and len(val.shape) != 1)]
    return b.concatenate(parts, dim % len(val.shape))


@operator(aten.stack.default)
def stack(b: Builder, val: Any, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(val.shape)
    parts = [b.reshape(x, (*x.sizes[:dim], 1, *x.sizes[dim:])) for x in tensors]
    return b.concatenate(parts, dim)


@operator(aten.constant_pad_nd.default)
def constant_pad(b: Builder, val: Any, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    if any(not isinstance(edge, int) or edge < 0 for edge in pad):
        raise Unsupported("XNNPACK pads by known sizes that are not negative")
    missing = x.rank - len(pad) // 2
    before = (0,) * missing + tuple(pad[-2::-2])
    after = (0,) * missing + tuple(pad[::-2])
    return b.node(
        "StaticConstantPad", [x], tuple(val.shape), pre_paddings=before, post_paddings=after, padding_value=float(value)
    )  # fmt: skip


@operator(aten.pad.default)
def pad_(
    b: Builder, val: Any, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    if mode != "constant":
        raise Unsupported(f"XNNPACK pads with a number, not in mode {mode}")
    return constant_pad(b, val, x, pad, 0.0 if value is None else value)


@operator(aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, val: Any, x: Value, upscale_factor: int) -> Value:
    *batch, channels, height, width = x.sizes
    r, n = upscale_factor, len(x.sizes) - 3
    x = b.reshape(x, (*batch, channels // (r * r), r, r, height, width))
    x = b.transpose(x, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return b.reshape(x, tuple(val.shape))


@operator(aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, val: Any, x: Value, downscale_factor: int) -> Value:
    *batch, channels, height, width = x.sizes
    r, n = downscale_factor, len(x.sizes) - 3
    x = b.reshape(x, (*batch, channels, height // r, r, width // r, r))
    x = b.transpose(x, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return b.reshape(x, tuple(val.shape))
