"""Cycles in a graph of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..core.label import Label


def find_cycle(roots: Iterable[Label], edges: Mapping[Label, Sequence[Label]]) -> list[Label] | None:
    """A cycle that the roots reach, its first label repeated at its end; None if there is none.

    Linear in the graph, and without recursion.
    """
    finished: set[Label] = set()
    for root in roots:
        if root in finished:
            continue
        path: dict[Label, None] = {root: None}
        stack = [(root, iter(edges.get(root, ())))]
        while stack:
            label, rest = stack[-1]
            for dependency in rest:
                if dependency in path:
                    cycle = list(path)
                    return [*cycle[cycle.index(dependency) :], dependency]
                if dependency not in finished:
                    path[dependency] = None
                    stack.append((dependency, iter(edges.get(dependency, ()))))
                    break
            else:
                stack.pop()
                path.pop(label)
                finished.add(label)
    return None
