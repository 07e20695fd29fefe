"""Convolutions as products of matrices: the stock runtime multiplies matrices many times faster than it convolves.

The windows of an image, as the columns of a matrix [channels * window, pixels], times the weight as
it lies in memory, [outputs, channels * window], are the result as it lies in memory. Of a 1×1
convolution they are the image itself, so that no element moves. Other windows are gathered by bands
of rows, in scratch memory that is small beside what is convolved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from ..format import schema
from .emitter import Emitter, Handler
from .kernels import bound_arguments, emit_operator
from .shapes import contiguous_order, dim_order, is_static
from .spare import Spare, spare_memory
from .values import Place, TensorValue
from .views import reshaped, view_of
from .windows import Band, Windows

aten = torch.ops.aten

# What the products need beside the convolution's own kernel, which a runtime may lack.
_KERNELS = ("aten::bmm.out", "aten::add.out", "aten::as_strided_copy.out", "aten::constant_pad_nd.out",
            "aten::index_put_", "aten::slice_scatter.out")  # fmt: skip

# Multiply-adds of one image from which on calling more than one kernel pays.
_LEAST_WORK = 1 << 13

# Scratch memory that pays in any case, in bytes: what a small cache holds.
_SCRATCH = 1 << 16

# Bands of all images that one convolution may become.
_MOST_BANDS = 256


def emit_convolution(emitter: Emitter, node: Node) -> Any:
    """aten.convolution: as products where sizes and places are known, else by the runtime's own kernel."""
    windows = _windows(node) if all(kernel in emitter.config.operators for kernel in _KERNELS) else None
    plan = _plan(emitter, node, windows) if windows is not None and _has_known_place(emitter, node) else None
    if windows is None or plan is None:
        return emit_operator(emitter, node)
    result = emitter.result(node.meta["val"], node)
    _Product(emitter, node, windows, result).emit(plan)
    return result


def _windows(node: Node) -> Windows | None:
    """The windows of a convolution that products can make; None of others."""
    arguments = bound_arguments(node)
    tensors = [arguments["input"].meta["val"], arguments["weight"].meta["val"], node.meta["val"]]
    same_rank = len({tensor.dim() for tensor in tensors}) == 1
    if arguments["transposed"] or not same_rank or not all(map(_is_plain, tensors)):
        return None
    source, weight, result = (tuple(int(size) for size in tensor.shape) for tensor in tensors)
    dims = len(source) - 2

    def pair(sizes: Sequence[int], absent: int) -> tuple[int, int]:
        sizes = list(sizes) * dims if len(sizes) == 1 else list(sizes)
        rows, columns = [*sizes, absent][:2]
        return int(rows), int(columns)

    windows = Windows(
        arguments["groups"], source[1], pair(source[2:], 1), result[1], pair(result[2:], 1), pair(weight[2:], 1),
        pair(arguments["stride"], 1), pair(arguments["padding"], 0), pair(arguments["dilation"], 1),
    )  # fmt: skip
    work = windows.outputs * windows.depth * windows.count
    return windows if work >= _LEAST_WORK and windows.touch_the_image() else None


def _is_plain(tensor: torch.Tensor) -> bool:
    default_order = dim_order(tensor) == contiguous_order(tensor.dim())
    static = is_static(tensor.shape) and tensor.numel() > 0
    return tensor.dim() in (3, 4) and tensor.is_floating_point() and static and default_order


def _has_known_place(emitter: Emitter, node: Node) -> bool:
    """Whether views of parts of the result can be had."""
    if node not in emitter.targets:
        return node not in emitter.caller_provided
    target = emitter.values.tensor(emitter.targets[node])
    return target.addressable and not target.dynamic


@dataclass(frozen=True)
class _Plan:
    """How many rows of the result a band has, and whether bands replace the rows of the image."""

    rows: int
    in_place: bool = False


def _plan(emitter: Emitter, node: Node, windows: Windows) -> _Plan | None:
    """Bands whose scratch memory is spare, or is what writing in place saves; None where there are none."""
    source, result = node.args[0], node.meta["val"]
    images, element = result.shape[0], result.element_size()
    if windows.are_pixels and (images == 1 or emitter.values.tensor(emitter.value(source)).addressable):
        return _Plan(windows.result[0]) if images <= _MOST_BANDS else None
    spare = _spare(emitter, node.graph)
    free = spare.bytes[node]
    sizes = [tensor.numel() // images * element for tensor in (source.meta["val"], result)]
    rows = windows.rows_within(min(free, max(_SCRATCH, sum(sizes) // 8)) // element)
    plan = _Plan(rows or min(windows.rows_within(free // element), 1))
    if rows < windows.result[0] and windows.keeps_shape and images == 1 and spare.is_last_use(source, node):
        in_place = windows.rows_within(min(free + sizes[1], max(_SCRATCH, sizes[1])) // element)
        if in_place > rows and in_place >= windows.padding[0]:
            plan = _Plan(in_place, in_place=True)
    return plan if plan.rows and images * -(-windows.result[0] // plan.rows) <= _MOST_BANDS else None


def _spare(emitter: Emitter, graph: Graph) -> Spare:
    def size_of(value: Any, node: Node) -> int:
        if node.op != "call_function":
            index = emitter.env.get(node)
            tensor = emitter.values.values[index] if isinstance(index, int) else None
            planned = isinstance(tensor, TensorValue) and tensor.storage.place is Place.PLANNED
            return tensor.storage.nbytes if planned else 0
        if node in emitter.caller_provided:
            return 0
        return math.prod(emitter.bounds.upper(size) or 0 for size in value.shape) * value.element_size()

    if graph not in emitter.spare:
        emitter.spare[graph] = spare_memory(graph, size_of)
    return emitter.spare[graph]


@dataclass
class _Product:
    """The convolution being emitted. Scratch tensors for the same purpose and of equal shape are one, for all bands."""

    emitter: Emitter
    node: Node
    windows: Windows
    result: int
    _scratch: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)
    _views: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source, weight, bias = self.node.args[:3]
        self._source = self.emitter.value(source)
        self._weight = self._reshaped(self.emitter.value(weight), *self._matrices(self.windows.depth))
        self._bias = None if bias is None else self._reshaped(self.emitter.value(bias), self.windows.outputs, 1)
        self._images = self.node.meta["val"].shape[0]

    def emit(self, plan: _Plan) -> None:
        """The result of all images, each by bands."""
        bands = list(self.windows.bands(plan.rows))
        for image in range(self._images):
            if len(bands) == 1:
                matrices = self._part_of(self.result, image, *self._matrices(self.windows.count))
                self._multiply(self._columns(image, bands[0], self._source), matrices)
            elif plan.in_place:
                self._over_the_image(bands)
            else:
                whole = self._part_of(self.result, image, 1, *self.node.meta["val"].shape[1:])
                for band in bands:
                    self._put(self._multiplied(band, self._columns(image, band, self._source)), band, whole)
            if self._bias is not None:
                matrix = self._part_of(self.result, image, self.windows.outputs, self.windows.count)
                self._call("aten::add", "out", matrix, self._bias, self.emitter.value(1), matrix)

    def _over_the_image(self, bands: Sequence[Band]) -> None:
        """Bands replace the image's rows, in its memory if it is not needed any more.

        A band is written after the next one's windows were gathered, which reach less than a band back.
        """
        columns = self._columns(0, bands[0], self._source)
        for band, following in zip(bands, (*bands[1:], None)):
            part = self._multiplied(band, columns)
            if following is not None:
                columns = self._columns(0, following, self._source if band.first == 0 else self.result)
            if band.first == 0:  # the rest of the image comes along
                start, end, step = (self.emitter.value(number) for number in (0, band.count, 1))
                rows = self.emitter.value(2)
                self._call("aten::slice_scatter", "out", self._source, part, rows, start, end, step, self.result)
                self.emitter.code.may_overwrite(self.result, self._source)
            else:
                self._put(part, band, self.result)

    def _columns(self, image: int, band: Band, source: int) -> int:
        """The windows of a band of one image, as the columns of a matrix for each group: [groups, depth, pixels]."""
        windows = self.windows
        if windows.are_pixels:
            view = self._part_of(source, image, windows.groups, windows.depth, windows.count)
            if view is not None:
                return view
        (height, width), (down, right) = windows.size, windows.stride
        offset = (image * windows.channels * height + band.start) * width
        if windows.padding[1] or band.above or band.below:
            source, offset = self._padded(source, band, offset), 0
            height, width = band.end - band.start + band.above + band.below, windows.padded_width
        by_row, by_column = windows.dilation
        strides = (height * width, by_row * width, by_column, down * width, right)
        shape = (windows.channels, *windows.kernel, band.count, windows.result[1])
        gathered = self._strided_copy("columns", source, shape, strides, offset)
        return self._matrix_view(gathered, windows.groups, windows.depth, band.count * windows.result[1])

    def _padded(self, source: int, band: Band, offset: int) -> int:
        """The rows of an image that a band's windows lie on, from element `offset` on, with their padding."""
        (height, width), side = self.windows.size, self.windows.padding[1]
        shape = (self.windows.channels, band.end - band.start, width)
        rows = self._strided_copy("rows", source, shape, (height * width, width, 1), offset)
        padded = self._tensor("padded", shape[0], shape[1] + band.above + band.below, self.windows.padded_width)
        self._call("aten::constant_pad_nd", "out", rows, self._ints(side, side, band.above, band.below),
                   self.emitter.value(0), padded)  # fmt: skip
        return padded

    def _multiplied(self, band: Band, columns: int) -> int:
        """A band of the result, in the result's rank."""
        shape = (1, self.windows.outputs, band.count, self.windows.result[1])
        part = self._tensor("part", *shape[: self.node.meta["val"].dim()])
        self._multiply(columns, self._matrix_view(part, *self._matrices(band.count * self.windows.result[1])))
        return part

    def _multiply(self, columns: int, matrices: int) -> None:
        self._call("aten::bmm", "out", self._weight, columns, matrices)

    def _matrices(self, columns: int) -> tuple[int, int, int]:
        """The shape of one matrix for each group, which has its outputs as rows."""
        return self.windows.groups, self.windows.outputs // self.windows.groups, columns

    def _put(self, part: int, band: Band, result: int) -> None:
        """Write a band into the result."""
        rows = self.emitter.constant_tensor(torch.arange(band.first, band.first + band.count))
        indices = self.emitter.values.add(schema.OptionalTensorList((-1, -1, rows)))
        accumulate = self.emitter.value(False)
        self.emitter.code.kernel("aten::index_put_", None, [result, indices, part, accumulate, result])

    def _strided_copy(
        self, role: str, source: int, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> int:  # fmt: skip
        copy = self._tensor(role, *shape)
        self._call("aten::as_strided_copy", "out", source, self._ints(*shape), self._ints(*strides),
                   self.emitter.value(offset), copy)  # fmt: skip
        return copy

    def _call(self, name: str, overload: str, *args: int) -> None:
        """Call a kernel whose last argument is its result."""
        self.emitter.code.kernel(name, overload, [*args, args[-1]])

    def _ints(self, *items: int) -> int:
        return self.emitter.values.int_list([self.emitter.value(item) for item in items])

    def _like(self, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=self.node.meta["val"].dtype, device="meta")

    def _tensor(self, role: str, *shape: int) -> int:
        if (role, shape) not in self._scratch:
            self._scratch[role, shape] = self.emitter.new_tensor(self._like(*shape), self.node)
        return self._scratch[role, shape]

    def _matrix_view(self, scratch: int, *shape: int) -> int:
        if (scratch, shape) not in self._views:
            self._views[scratch, shape] = self._reshaped(scratch, *shape)
        return self._views[scratch, shape]

    def _reshaped(self, base: int, *shape: int) -> int:
        return reshaped(self.emitter, base, shape, self.node)

    def _part_of(self, base: int, image: int, *shape: int) -> int | None:
        """All of one image at `base` in another shape, if that needs no copy."""
        tensor = self.emitter.values.tensor(base)
        if not tensor.addressable:
            return self._reshaped(base, *shape) if self._images == 1 else None
        return view_of(self.emitter, base, self._like(*shape), self.node, image * math.prod(shape))


CONVOLUTION_HANDLERS: dict[Any, Handler] = {aten.convolution.default: emit_convolution}
