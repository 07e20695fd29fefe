"""When each storage holds a value that somebody still needs, in instruction numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Lifetime = tuple[int, int]
"""First and last instruction that touches a storage, both inclusive."""


def lifetimes(
    touched: Sequence[Iterable[int]],
    storage_count: int,
    *,
    loops: Sequence[tuple[int, int]] = (),
    from_start: Iterable[int] = (),
    to_end: Iterable[int] = (),
) -> list[Lifetime | None]:
    """The lifetime of each of `storage_count` storages; None for one that is never touched.

    `touched[i]` are the storages that instruction i reads or writes. `loops` are the first and last
    instructions of loop bodies: what is made before a loop and touched in it must survive until the
    loop ends, because the next round touches it again. Storages in `from_start` hold a value before
    instruction 0, those in `to_end` after the last.
    """
    first = [len(touched)] * storage_count
    last = [-2] * storage_count
    for index, storages in enumerate(touched):
        for storage in storages:
            first[storage] = min(first[storage], index)
            last[storage] = index
    for storage in from_start:
        first[storage], last[storage] = -1, max(last[storage], -1)
    for storage in to_end:
        last[storage] = len(touched)
    for start, end in loops:
        for index in range(start, end + 1):
            for storage in touched[index]:
                if first[storage] < start:
                    last[storage] = max(last[storage], end)
    return [None if last[s] == -2 else (min(first[s], last[s]), last[s]) for s in range(storage_count)]
