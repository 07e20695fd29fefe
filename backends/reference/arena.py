"""Where values live in the arena: two share memory if one is dead before the other is born."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

ALIGNMENT = 16  # bytes
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Lifetime:
    """Bytes that are needed from step `first` to step `last`, both included."""

    first: int
    last: int
    nbytes: int


def plan(lifetimes: Mapping[Key, Lifetime]) -> tuple[dict[Key, int], int]:
    """Each value's offset, and the bytes of the arena.

    First fit in order of birth; work grows with the number of values that are alive at once.
    """
    offsets: dict[Key, int] = {}
    alive: list[tuple[int, int, int]] = []  # (offset, end, last step), by offset
    size = 0
    for key, lifetime in sorted(lifetimes.items(), key=lambda item: item[1].first):
        alive = [block for block in alive if block[2] >= lifetime.first]
        need = -(-max(lifetime.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        offset = _first_gap(alive, need)
        insort(alive, (offset, offset + need, lifetime.last))
        offsets[key] = offset
        size = max(size, offset + need)
    return offsets, size


def _first_gap(alive: Sequence[tuple[int, int, int]], need: int) -> int:
    end = 0
    for offset, block_end, _ in alive:
        if offset - end >= need:
            break
        end = max(end, block_end)
    return end
