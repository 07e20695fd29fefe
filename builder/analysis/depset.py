"""Depsets: sets that targets share with what depends on them, and that are flattened in linear time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Depset(Generic[T]):
    """An immutable ordered set: some items of its own, and other depsets.

    Building one costs as much as what is given directly, however large the depsets below it are.
    The order is that of Bazel's "postorder": what is below comes before what is above, left
    before right, each item where it is met first. So in a list of libraries every library stands
    after those that it depends on, and the list reversed is a valid order for a linker.
    """

    __slots__ = ("direct", "transitive")

    def __init__(self, direct: Iterable[T] = (), transitive: Iterable[Depset[T]] = ()):
        self.direct: tuple[T, ...] = tuple(direct)
        self.transitive: tuple[Depset[T], ...] = tuple(d for d in transitive if d.direct or d.transitive)

    def __bool__(self) -> bool:
        return bool(self.direct or self.transitive)

    def to_list(self) -> list[T]:
        """All items, each once. Linear in the items and depsets reachable; no recursion."""
        items: dict[T, None] = {}
        visited: set[int] = {id(self)}
        stack: list[tuple[Depset[T], int]] = [(self, 0)]
        while stack:
            node, child = stack.pop()
            if child < len(node.transitive):
                stack.append((node, child + 1))
                below = node.transitive[child]
                if id(below) not in visited:
                    visited.add(id(below))
                    stack.append((below, 0))
            else:
                items.update(dict.fromkeys(node.direct))
        return list(items)

    def __repr__(self) -> str:
        return f"Depset({self.to_list()!r})"
