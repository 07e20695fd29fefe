"""Tables of things that occur often in a file: each is written once and then named by its index."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Table:
    """Values in order of first use; equal keys share an entry."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._index: dict[Hashable, int] = {}

    def find(self, key: Hashable) -> int | None:
        """The index of what was added under `key`."""
        return self._index.get(key)

    def add(self, key: Hashable, entry: Any) -> int:
        """The index of `key`'s entry, which is `entry` where there is none yet."""
        index = self._index.setdefault(key, len(self.entries))
        if index == len(self.entries):
            self.entries.append(entry)
        return index
