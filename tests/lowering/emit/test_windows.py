"""Bands of windows cover a result once, and what they gather times the weight is the convolution."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rules_executorch.lowering.emit.windows import Windows

small = st.integers(1, 4)


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    pair = st.tuples(small, small)
    kernel, stride, dilation = draw(pair), draw(pair), draw(pair)
    padding = (draw(st.integers(0, 4)), draw(st.integers(0, 4)))
    size = (draw(st.integers(1, 20)), draw(st.integers(1, 20)))
    spans = [d * (k - 1) for d, k in zip(dilation, kernel)]
    result = tuple((s + 2 * p - span - 1) // step + 1 for s, p, span, step in zip(size, padding, spans, stride))
    assume(min(result) > 0)
    groups = draw(st.integers(1, 2))
    channels, outputs = groups * draw(small), groups * draw(small)
    return Windows(groups, channels, size, outputs, (result[0], result[1]), kernel, stride, padding, dilation)


@settings(max_examples=200, deadline=None)
@given(windows(), st.integers(1, 20))
def test_bands_make_the_convolution(windows: Windows, rows: int) -> None:
    assume(windows.touch_the_image())
    image = torch.randn(1, windows.channels, *windows.size)
    weight = torch.randn(windows.outputs, windows.channels // windows.groups, *windows.kernel)
    side, parts = windows.padding[1], []
    for band in windows.bands(rows):
        assert 0 <= band.start < band.end <= windows.size[0]
        source = torch.nn.functional.pad(image[:, :, band.start : band.end], (side, side, band.above, band.below))
        parts.append(
            torch.conv2d(source, weight, None, windows.stride, 0, windows.dilation, windows.groups)[:, :, : band.count]
        )
    expected = torch.conv2d(image, weight, None, windows.stride, windows.padding, windows.dilation, windows.groups)
    torch.testing.assert_close(torch.cat(parts, 2), expected)


@settings(deadline=None)
@given(windows(), st.integers(0, 5000))
def test_as_many_rows_as_fit(windows: Windows, elements: int) -> None:
    def scratch(rows: int) -> int:
        band = windows.band(0, rows)
        source = windows.channels * (band.end - band.start) * windows.size[1]
        padded = windows.channels * (band.end - band.start + band.above + band.below) * windows.padded_width
        gathered = (windows.groups * windows.depth + windows.outputs) * rows * windows.result[1]
        return gathered + (source + padded if windows.is_padded else 0)

    rows = windows.rows_within(elements)
    assert 0 <= rows <= windows.result[0]
    assert rows == 0 or scratch(rows) <= elements
