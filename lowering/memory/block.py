"""A piece of memory that is needed for a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """`size` bytes, needed from instruction `first` to instruction `last`, both inclusive."""

    size: int
    first: int
    last: int
