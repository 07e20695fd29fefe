"""Minimum cut: the cheapest way to tell two sides of a network apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable


class Network:
    """Vertices joined by edges of integer capacity, and by nets: groups that cost once if not all on one side."""

    UNLIMITED = 1 << 62

    def __init__(self) -> None:
        self._capacity: dict[Hashable, dict[Hashable, int]] = {}
        self._nets = 0

    def edge(self, start: Hashable, end: Hashable, capacity: int) -> None:
        """It costs `capacity` if `start` is on the source's side and `end` is not."""
        forward = self._capacity.setdefault(start, {})
        forward[end] = forward.get(end, 0) + capacity
        self._capacity.setdefault(end, {}).setdefault(start, 0)

    def net(self, members: set[Hashable], cost: int) -> None:
        """It costs `cost`, once, if members are on both sides."""
        entry, exit_ = ("net", self._nets, 0), ("net", self._nets, 1)
        self._nets += 1
        self.edge(entry, exit_, cost)
        for member in members:
            self.edge(member, entry, self.UNLIMITED)
            self.edge(exit_, member, self.UNLIMITED)

    def source_side(self, source: Hashable, sink: Hashable) -> set[Hashable]:
        """The fewest vertices that can be on the source's side of a cheapest cut.

        By shortest augmenting paths: each takes time linear in the edges, and their number is
        bounded by the number of nets that are cut, as good as always.
        """
        self._capacity.setdefault(source, {})
        while True:
            came_from = self._reachable(source, sink)
            if sink not in came_from:
                return set(came_from)
            path = [sink]
            while path[-1] != source:
                path.append(came_from[path[-1]])
            pairs = list(zip(path[1:], path))
            flow = min(self._capacity[start][end] for start, end in pairs)
            for start, end in pairs:
                self._capacity[start][end] -= flow
                self._capacity[end][start] += flow

    def _reachable(self, source: Hashable, sink: Hashable) -> dict[Hashable, Hashable]:
        """What can be reached by edges with capacity left, and from where; the search ends at the sink."""
        came_from: dict[Hashable, Hashable] = {source: source}
        waiting = deque([source])
        while waiting and sink not in came_from:
            vertex = waiting.popleft()
            for neighbour, capacity in self._capacity[vertex].items():
                if capacity > 0 and neighbour not in came_from:
                    came_from[neighbour] = vertex
                    waiting.append(neighbour)
        return came_from
