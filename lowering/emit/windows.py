"""Where the windows of a convolution lie in an image, and in which bands of rows they are gathered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Band:
    """Rows `first` to `first + count` of a result, and the rows of the image that their windows lie on.

    Of those, `start` to `end` exist; `above` and `below` them are so many of the padding.
    """

    first: int
    count: int
    start: int
    end: int
    above: int
    below: int


@dataclass(frozen=True)
class Windows:
    """The windows of one image, [channels, height, width], that make a result, [outputs, height, width].

    Each of the `groups` makes its part of the outputs of its part of the channels. Pairs are of the two
    dimensions of the image, rows first. A signal is an image of width one.
    """

    groups: int
    channels: int
    size: tuple[int, int]
    outputs: int
    result: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def depth(self) -> int:
        """Elements of a window of one group."""
        return self.channels // self.groups * math.prod(self.kernel)

    @property
    def count(self) -> int:
        """How many windows there are: one for each pixel of the result."""
        return math.prod(self.result)

    @property
    def are_pixels(self) -> bool:
        """Whether the windows are the image's pixels, one by one."""
        return self.kernel == self.stride == (1, 1) and not self.is_padded

    @property
    def is_padded(self) -> bool:
        return self.padding != (0, 0)

    @property
    def keeps_shape(self) -> bool:
        return self.channels == self.outputs and self.size == self.result and self.stride == (1, 1)

    @property
    def padded_width(self) -> int:
        return self.size[1] + 2 * self.padding[1]

    def touch_the_image(self) -> bool:
        """Whether every window has an element that is no padding."""
        return all(p <= d * (k - 1) for p, d, k in zip(self.padding, self.dilation, self.kernel))

    def band(self, first: int, count: int) -> Band:
        """`count` rows of the result from `first` on."""
        start = first * self.stride[0] - self.padding[0]
        end = start + (count - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        return Band(first, count, max(start, 0), min(end, self.size[0]), max(-start, 0), max(end - self.size[0], 0))

    def bands(self, rows: int) -> Iterator[Band]:
        """All rows of the result, so many at once."""
        for first in range(0, self.result[0], rows):
            yield self.band(first, min(rows, self.result[0] - first))

    def rows_within(self, elements: int) -> int:
        """How many rows can be gathered and multiplied at once in so many elements of scratch."""
        fixed = self._scratch(1) - (step := self._scratch(2) - self._scratch(1))
        return min(max((elements - fixed) // step, 0), self.result[0])

    def _scratch(self, rows: int) -> int:
        """Elements of the windows of `rows` rows, of their product, and of the rows that they are gathered from."""
        gathered = (self.groups * self.depth + self.outputs) * rows * self.result[1]
        if not self.is_padded:
            return gathered
        source = (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
        return gathered + self.channels * source * (self.size[1] + self.padded_width)
