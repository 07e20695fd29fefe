"""Places blocks in one memory so that blocks alive at the same time never overlap.

Two ways, of which the better result is taken: in some order, largest first, into the best gap
among the neighbours in time, which packs tightly; and a sweep through time with a list of free
gaps, which takes O(n log n) whatever the lifetimes. An order is then improved: whichever block
ends highest gets its place earlier next time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from .block import Block
from .lower_bound import lower_bound

# Pairs of blocks alive at the same time, per block, up to which looking at each pair is affordable.
_PAIRS_PER_BLOCK = 128
# Rounds of improving an order, as long as the pairs looked at in all of them are not too many.
_ROUNDS = 40
_PAIRS_IN_ALL_ROUNDS = 2_000_000


@dataclass(frozen=True)
class Placement:
    """Where each block lies, in bytes, what all need together, and what any placement would need."""

    offsets: tuple[int, ...]
    size: int
    lower_bound: int


def place(blocks: Sequence[Block], alignment: int = 16) -> Placement:
    """Place `blocks`, each at a multiple of `alignment` bytes."""
    aligned = [Block(-(-block.size // alignment) * alignment, block.first, block.last) for block in blocks]
    bound = lower_bound(aligned)
    best = _sweep(aligned)
    size = _extent(aligned, best)
    neighbours = None if size == bound else _neighbours(aligned)
    if neighbours is not None:
        for urgency in (_by_size, _by_area):
            order = sorted(range(len(aligned)), key=lambda index: (*urgency(aligned[index]), index))
            candidate = _improved(aligned, neighbours, order, bound)
            if _extent(aligned, candidate) < size:
                best, size = candidate, _extent(aligned, candidate)
    return Placement(tuple(best), size, bound)


def _improved(blocks: Sequence[Block], neighbours: list[list[int]], order: list[int], bound: int) -> list[int]:
    """The best placement found from `order` on, in which each round moves up the block that ended highest."""
    best = offsets = _into_gaps(blocks, neighbours, order)
    size = _extent(blocks, best)
    for _ in range(min(_ROUNDS, _PAIRS_IN_ALL_ROUNDS // (1 + sum(map(len, neighbours))))):
        if size == bound:
            break
        highest = max(order, key=lambda index: offsets[index] + blocks[index].size)
        position = order.index(highest)
        order.insert(position // 2, order.pop(position))
        offsets = _into_gaps(blocks, neighbours, order)
        if _extent(blocks, offsets) < size:
            best, size = offsets, _extent(blocks, offsets)
    return best


def _extent(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    return max((offset + block.size for block, offset in zip(blocks, offsets)), default=0)


def _by_size(block: Block) -> tuple[int, int]:
    return -block.size, block.first - block.last


def _by_area(block: Block) -> tuple[int, int]:
    return -block.size * (block.last - block.first + 1), -block.size


def _neighbours(blocks: Sequence[Block]) -> list[list[int]] | None:
    """For each block those that live at some time when it does; None if they are too many."""
    order = sorted(range(len(blocks)), key=lambda index: blocks[index].first)
    firsts = [blocks[index].first for index in order]
    ends = [bisect_right(firsts, blocks[index].last) for index in order]
    if sum(end - position for position, end in enumerate(ends, 1)) > _PAIRS_PER_BLOCK * len(blocks):
        return None
    neighbours: list[list[int]] = [[] for _ in blocks]
    for position, (index, end) in enumerate(zip(order, ends)):
        for other in order[position + 1 : end]:
            neighbours[index].append(other)
            neighbours[other].append(index)
    return neighbours


def _into_gaps(blocks: Sequence[Block], neighbours: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Each block, in the given order, into the smallest gap that its neighbours leave, else above them."""
    offsets = [-1] * len(blocks)
    for index in order:
        size, top, best, best_gap = blocks[index].size, 0, -1, -1
        placed = [n for n in neighbours[index] if offsets[n] >= 0]
        for start, end in sorted((offsets[n], offsets[n] + blocks[n].size) for n in placed):
            gap = start - top
            if gap >= size and (best < 0 or gap < best_gap):
                best, best_gap = top, gap
            top = max(top, end)
        offsets[index] = top if best < 0 else best
    return offsets


def _sweep(blocks: Sequence[Block]) -> list[int]:
    """Allocate and free in the order of time; each block goes into the smallest gap that holds it."""
    offsets = [0] * len(blocks)
    gaps = _Gaps()
    living: list[tuple[int, int]] = []  # (last, index), a heap
    for index in sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].size, i)):
        while living and living[0][0] < blocks[index].first:
            _, dead = heapq.heappop(living)
            gaps.release(offsets[dead], blocks[dead].size)
        if blocks[index].size:
            offsets[index] = gaps.take(blocks[index].size)
            heapq.heappush(living, (blocks[index].last, index))
    return offsets


class _Gaps:
    """The free parts of a memory that grows at its end."""

    def __init__(self) -> None:
        self._end = 0
        self._by_size: list[tuple[int, int]] = []  # (size, start), sorted
        self._size_at: dict[int, int] = {}  # start → size
        self._start_before: dict[int, int] = {}  # end → start

    def take(self, size: int) -> int:
        position = bisect_left(self._by_size, (size, 0))
        if position < len(self._by_size):
            gap, start = self._by_size[position]
            self._remove(start)
            if gap > size:
                self._add(start + size, gap - size)
            return start
        start = self._start_before.get(self._end, self._end)  # a gap at the very end grows
        if start != self._end:
            self._remove(start)
        self._end = start + size
        return start

    def release(self, start: int, size: int) -> None:
        before = self._start_before.get(start)
        if before is not None:
            size += start - before
            start = before
            self._remove(before)
        after = self._size_at.get(start + size)
        if after is not None:
            self._remove(start + size)
            size += after
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self._by_size, (size, start))
        self._size_at[start] = size
        self._start_before[start + size] = start

    def _remove(self, start: int) -> None:
        size = self._size_at.pop(start)
        del self._start_before[start + size]
        del self._by_size[bisect_left(self._by_size, (size, start))]
