"""The least memory that any plan needs: the most bytes that live at one time."""

from __future__ import annotations

from collections.abc import Sequence

from .block import Block


def lower_bound(blocks: Sequence[Block]) -> int:
    """Bytes; no placement of `blocks` can be smaller. O(n log n)."""
    events = [(block.first, block.size) for block in blocks] + [(block.last + 1, -block.size) for block in blocks]
    events.sort()  # what ends before an instruction is gone when the next begins: negative sizes first
    live = peak = 0
    for _, change in events:
        live += change
        peak = max(peak, live)
    return peak
