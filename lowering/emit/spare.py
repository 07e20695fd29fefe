"""How much memory a node may use for itself before the method needs more of it than its values do."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from .shapes import RESHAPES

_Part = tuple[Node, int]  # a node, and which of its results


@dataclass(frozen=True)
class Spare:
    """Of a graph whose every operator writes its result to memory of its own, as a planner knows it beforehand.

    `bytes` is by node: what is not in use then, of the most that is in use at any time.
    """

    bytes: Mapping[Node, int]
    _last_use: Mapping[_Part, Node]
    _home: Mapping[Node, list[_Part]]

    def is_last_use(self, operand: Node, node: Node) -> bool:
        """Whether nobody needs the memory of `operand` after `node`."""
        return all(self._last_use[part] is node for part in self._home[operand])


def spare_memory(graph: Graph, size_of: Callable[[torch.Tensor, Node], int]) -> Spare:
    """The memory of each node of `graph`, in time linear in nodes and uses; `size_of` gives a tensor's bytes."""
    home: dict[Node, list[_Part]] = {}
    last_use: dict[_Part, Node] = {}
    first: dict[Node, int] = {}
    change = [0] * (len(graph.nodes) + 1)
    for position, node in enumerate(graph.nodes):
        first[node] = position
        for operand in node.all_input_nodes if node.target is not operator.getitem else ():
            last_use.update(dict.fromkeys(home[operand], node))
        home[node] = _home(node, home)
        last_use.update((part, node) for part in home[node])
    for (node, index), last in last_use.items():
        size = size_of(_results(node)[index], node)
        change[0 if node.op == "placeholder" else first[node]] += size
        change[first[last] + 1] -= size
    live = list(itertools.accumulate(change))
    most = max(live)
    return Spare({node: most - in_use for node, in_use in zip(graph.nodes, live)}, last_use, home)


def _home(node: Node, home: Mapping[Node, list[_Part]]) -> list[_Part]:
    """The results whose memory `node` is in: its own, or another's."""
    if node.target is operator.getitem:
        parts = home[node.args[0]]
        own = [part for part in parts if part == (node.args[0], node.args[1])]
        return own or parts
    if node.target in RESHAPES:
        return home[node.args[0]]
    return [(node, index) for index, value in enumerate(_results(node)) if isinstance(value, torch.Tensor)]


def _results(node: Node) -> tuple[Any, ...]:
    value = node.meta.get("val")
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
