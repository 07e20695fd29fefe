"""Appends nodes to a graph: the vocabulary in which operators say what they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from .graph import Layout, Node, Quantization, Size, Unsupported, Value, expressions, is_static, same_sizes
from .schema import KEEP_DIMS, MAX_RANK, TRANSPOSE_B, DataType

TORCH_TYPES = {DataType.FLOAT32: torch.float32, DataType.FLOAT16: torch.float16}
FLOATS = {dtype: data_type for data_type, dtype in TORCH_TYPES.items()}


class Builder:
    """Nodes so far. Every method checks what XNNPACK asks of its operands, and raises Unsupported otherwise.

    `debug_handle` is that of the nodes appended next, `source` the program's node that they stand for.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.debug_handle = 0
        self.source: torch.fx.Node | None = None

    def node(
        self, kind: str, operands: Sequence[Value | None], sizes: Sequence[Size], *,
        layout: Layout = Layout.SAME, dtype: DataType | None = None, quantization: Quantization | None = None,
        low: float = -math.inf, high: float = math.inf, **attributes: Any,
    ) -> Value:  # fmt: skip
        """Append a node with one result of these sizes, by default of the first operand's type, which is a float."""
        first = next(operand for operand in operands if operand is not None)
        if dtype is None and first.dtype not in TORCH_TYPES:
            raise Unsupported(f"XNNPACK does not compute with {first.dtype.name}")
        result = Value(tuple(sizes), dtype or first.dtype, quantization=quantization)
        check_sizes(result.sizes)
        self.nodes.append(
            Node(kind, tuple(operands), (result,), attributes, layout, low, high, self.debug_handle)
        )  # fmt: skip
        return result

    # -- Constants ----------------------------------------------------------------------------

    def constant(self, sizes: Sequence[int], dtype: DataType, data: Callable[[], torch.Tensor]) -> Value:
        """A constant whose data are computed when the graph is written."""
        return Value(tuple(sizes), dtype, lambda: data().to(TORCH_TYPES[dtype]))

    def number(self, number: float, like: Value) -> Value:
        """A constant of one element, of the type of `like`."""
        return self.constant((1,) * max(like.rank, 1), like.dtype, lambda: torch.full((1,) * max(like.rank, 1), number))

    def derived(
        self, source: Value, function: Callable[[torch.Tensor], torch.Tensor], sizes: Sequence[int], *,
        channels: tuple[int, int] | None = None, groups: int = 1,
    ) -> Value:  # fmt: skip
        """The constant that `function` makes of another, rearranging its elements.

        `channels` are the dimension of the output channels before and after: where the constant is
        quantized along it, the result is quantized too. After, they are those of all `groups` in turn.
        """
        data, integers = need_constant(source), source.integers
        if integers is not None:
            quantization, from_integers = integers.quantization, need_constant(integers)
            assert quantization is not None
            if (scales := quantization.scales) is not None:
                moves = channels is not None and channels[0] == quantization.channel_dim
                kept = moves and quantization.group_size is None and integers.dtype == DataType.QCINT8
                moved = replace(
                    quantization, channel_dim=channels[1] if channels else 0, scales=lambda: scales().repeat(groups)
                )  # fmt: skip
                quantization = moved if kept else None
            integers = quantization and Value(
                tuple(sizes), integers.dtype, lambda: function(from_integers()), quantization
            )  # fmt: skip
        return Value(tuple(sizes), source.dtype, lambda: function(data()), integers=integers)

    # -- Elementwise --------------------------------------------------------------------------

    def unary(self, kind: str, x: Value, **attributes: Any) -> Value:
        return self.node(kind, [x], x.sizes, **attributes)

    def clamp(self, x: Value, low: float, high: float) -> Value:
        return self.node("Clamp", [x], x.sizes, low=low, high=high)

    def binary(self, kind: str, a: Value | float, b: Value | float) -> Value:
        """An operation on two tensors, broadcast, or on a tensor and a number."""
        if not isinstance(a, Value):
            assert isinstance(b, Value)
            a = self.number(a, b)
        if not isinstance(b, Value):
            b = self.number(b, a)
        if a.dtype != b.dtype:  # as PyTorch promotes: halves to floats
            a, b = (self.converted(x, DataType.FLOAT32) for x in (a, b))
        return self.node(kind, [a, b], broadcast(a.sizes, b.sizes))

    def converted(self, x: Value, dtype: DataType) -> Value:
        """The same numbers as floats or halves."""
        if x.dtype not in TORCH_TYPES or dtype not in TORCH_TYPES:
            raise Unsupported(f"XNNPACK does not convert {x.dtype.name} to {dtype.name}")
        if x.dtype == dtype:
            return x
        if x.constant is not None:
            return self.constant(x.sizes, dtype, x.constant)
        return self.node("Convert", [x], x.sizes, dtype=dtype)

    # -- Shapes -------------------------------------------------------------------------------

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Other sizes on the same elements. At most one size may be dynamic: it is inferred."""
        if same_sizes(x.sizes, sizes):
            return x
        if sum(not isinstance(size, int) for size in sizes) > 1:
            raise Unsupported(f"its result {list(sizes)} has more than one dynamic size, and XNNPACK infers only one")
        if x.constant is not None and is_static(sizes):
            return self.derived(x, lambda tensor: tensor.reshape(tuple(sizes)), sizes)
        return self.node("StaticReshape", [x], sizes, layout=reshape_layout(x.sizes, sizes))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Dimension i of the result is dimension order[i] of x."""
        order = tuple(d % x.rank for d in order)
        if order == tuple(range(x.rank)):
            return x
        sizes = [x.sizes[d] for d in order]
        if x.constant is not None:
            return self.derived(x, lambda tensor: tensor.permute(order), sizes)
        return self.node("StaticTranspose", [x], sizes, layout=Layout.PERMUTE, perm=order)

    def slice(self, x: Value, dim: int, start: int, length: int) -> Value:
        """`length` elements from `start` along one dimension."""
        if isinstance(x.sizes[dim], int) and start == 0 and length == x.sizes[dim]:
            return x
        if length == 0:
            raise Unsupported("it is empty")
        sizes = (*x.sizes[:dim], length, *x.sizes[dim + 1 :])
        offsets = tuple(start if d == dim else 0 for d in range(x.rank))
        return self.node("StaticSlice", [x], sizes, offsets=offsets)

    def concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        """Joined along one dimension; XNNPACK joins up to five at once."""
        if len({part.dtype for part in parts}) > 1:
            raise Unsupported("its operands are of different types")
        while len(parts) > 1:
            parts = [self._concatenate(parts[i : i + 5], dim) for i in range(0, len(parts), 5)]
        return parts[0]

    def _concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        if len(parts) == 1:
            return parts[0]
        sizes = [*parts[0].sizes[:dim], sum(part.sizes[dim] for part in parts), *parts[0].sizes[dim + 1 :]]
        return self.node(f"Concatenate{len(parts)}", parts, sizes, axis=dim)

    # -- Products -----------------------------------------------------------------------------

    def fully_connected(self, x: Value, weight: Value, bias: Value | None) -> Value:
        """x[..., in] times weight[out, in] transposed, plus bias[out]."""
        return self.node("FullyConnected", [x, weight, bias], [*x.sizes[:-1], weight.sizes[0]], layout=Layout.DEFAULT)

    def batch_matmul(self, a: Value, b: Value, *, transpose_b: bool = False) -> Value:
        """a[..., m, k] times b[..., k, n], or b[..., n, k] transposed; leading sizes are broadcast."""
        columns = b.sizes[-2 if transpose_b else -1]
        sizes = [*broadcast(a.sizes[:-2], b.sizes[:-2]), a.sizes[-2], columns]
        flags = TRANSPOSE_B if transpose_b else 0
        return self.node("BatchMatrixMultiply", [a, b], sizes, layout=Layout.DEFAULT, flags=flags)

    def row_softmax(self, x: Value) -> Value:
        """Softmax over the last dimension."""
        return self.node("Softmax", [x], x.sizes, layout=Layout.DEFAULT)

    # -- Means --------------------------------------------------------------------------------

    def row_mean(self, x: Value) -> Value:
        """The mean over the last dimension, which stays with size one: a product with a row of 1/n."""
        width = x.sizes[-1]
        if not isinstance(width, int):
            raise Unsupported("it reduces a dynamic dimension")
        row = self.constant((1, width), x.dtype, lambda: torch.full((1, width), 1.0 / width))
        return self.fully_connected(x, row, None)

    def image_mean(self, x: Value) -> Value:
        """The mean over the last two dimensions of NCHW, which stay with size one."""
        return self.node(
            "GlobalAvgPooling2d", [x], (*x.sizes[:2], 1, 1), layout=Layout.CHANNELS_LAST, flags=KEEP_DIMS
        )  # fmt: skip


def reshape_layout(old: Sequence[Size], new: Sequence[Size]) -> Layout:
    """Any layout will do if only what follows the channels, dimension 1, is rearranged.

    Channels-last, each image is a matrix of [pixels, channels] before and after. Two dimensions
    are images of one pixel.
    """
    ranks = sorted((len(old), len(new)))
    keeps = ranks[0] >= 2 and ranks[1] in (3, 4) and same_sizes(old[:2], new[:2])
    return Layout.SAME if keeps else Layout.DEFAULT


def need_constant(value: Value, what: str = "its operand") -> Callable[[], torch.Tensor]:
    """The data of a constant. Raises Unsupported for other values."""
    if value.constant is None:
        raise Unsupported(f"{what} is not a constant")
    return value.constant


def check_sizes(sizes: Sequence[Size]) -> None:
    """Raise Unsupported for sizes that no value can have."""
    if len(sizes) > MAX_RANK:
        raise Unsupported(f"it has {len(sizes)} dimensions, and XNNPACK's values have at most {MAX_RANK}")
    if any(isinstance(size, int) and size == 0 for size in sizes):
        raise Unsupported("it is empty")


def broadcast(left: Sequence[Size], right: Sequence[Size]) -> tuple[Size, ...]:
    """The sizes to which two tensors are broadcast, without a guard. Raises Unsupported where that is open."""
    rank = max(len(left), len(right))
    left, right = ((1,) * (rank - len(sizes)) + tuple(sizes) for sizes in (left, right))
    return tuple(_broadcast_size(a, b) for a, b in zip(left, right))


def _broadcast_size(a: Size, b: Size) -> Size:
    if isinstance(a, int) and a == 1:
        return b
    if isinstance(b, int) and b == 1 or expressions([a]) == expressions([b]):
        return a
    raise Unsupported(f"sizes {a} and {b} may or may not be broadcast")
