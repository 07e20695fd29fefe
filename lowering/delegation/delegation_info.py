"""What was delegated and what was not, counted over a program: for people, and for reports."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.fx
from torch.export import ExportedProgram

from ..errors import source_line
from .backend import LEFT_BEHIND
from .lowered_module import executorch_call_delegate, lowered_modules
from .partitioning import graph_modules


@dataclass(frozen=True)
class OperatorCount:
    """How often an operator occurs in delegates, and outside of them."""

    delegated: int
    not_delegated: int


@dataclass(frozen=True)
class LeftBehind:
    """A node that a partitioner left outside, why, and the model's source line that made it, if known."""

    node: str
    operator: str
    reason: str
    source: str | None


@dataclass(frozen=True)
class DelegationInfo:
    """Counts of one program, bodies of control flow included.

    Nodes are operators on tensors: neither `getitem`, nor arithmetic on sizes, nor calls of delegates.
    `partitions` counts the delegates of each backend; `by_operator` goes from the operator's name.
    `left_behind` has the nodes of which a partitioner said why it does not take them.
    """

    num_delegated_nodes: int
    num_non_delegated_nodes: int
    partitions: Mapping[str, int]
    by_operator: Mapping[str, OperatorCount]
    left_behind: tuple[LeftBehind, ...] = ()

    @property
    def num_delegated_subgraphs(self) -> int:
        return sum(self.partitions.values())

    def get_summary(self) -> str:
        """The counts as a few lines."""
        backends = ", ".join(f"{backend} {count}" for backend, count in self.partitions.items()) or "none"
        return (
            f"delegated subgraphs: {self.num_delegated_subgraphs} ({backends})\n"
            f"delegated nodes: {self.num_delegated_nodes}\n"
            f"non-delegated nodes: {self.num_non_delegated_nodes}"
        )

    def get_table(self) -> str:
        """One line per operator, those that are left outside most often first."""
        width = max(map(len, ("operator", *self.by_operator)))
        lines = [f"{'operator':{width}}  delegated  not delegated"]
        for name, count in self.by_operator.items():
            lines.append(f"{name:{width}}  {count.delegated:9}  {count.not_delegated:13}")
        return "\n".join(lines)

    def get_reasons(self) -> str:
        """One line per reason why operators are left behind, with how often, the most frequent first."""
        reasons = Counter((each.operator, each.reason) for each in self.left_behind)
        return "\n".join(f"{count} {name}: {reason}" for (name, reason), count in reasons.most_common())


def get_delegation_info(program: ExportedProgram | torch.fx.GraphModule) -> DelegationInfo:
    """What was delegated of a program that came out of to_backend."""
    graph_module = program.graph_module if isinstance(program, ExportedProgram) else program
    delegates = list(lowered_modules(graph_module))
    outside = Counter(_operators(graph_module))
    inside: Counter[str] = Counter()
    for delegate in delegates:
        inside.update(_operators(delegate.original_program.graph_module))
    counts = {name: OperatorCount(inside[name], outside[name]) for name in inside | outside}
    ordered = sorted(counts.items(), key=lambda item: (-item[1].not_delegated, -item[1].delegated, item[0]))
    return DelegationInfo(
        num_delegated_nodes=inside.total(),
        num_non_delegated_nodes=outside.total(),
        partitions=dict(Counter(delegate.backend_id for delegate in delegates)),
        by_operator=dict(ordered),
        left_behind=tuple(_left_behind(graph_module)),
    )


def _left_behind(graph_module: torch.fx.GraphModule) -> Iterator[LeftBehind]:
    for module in graph_modules(graph_module):
        for node in module.graph.nodes:
            if LEFT_BEHIND in node.meta:
                yield LeftBehind(node.name, str(node.target), node.meta[LEFT_BEHIND], source_line(node))


def _operators(graph_module: torch.fx.GraphModule) -> Iterator[str]:
    """The name of the operator of every node that computes."""
    for module in graph_modules(graph_module):
        for node in module.graph.nodes:
            if node.op != "call_function" or node.target in (operator.getitem, executorch_call_delegate):
                continue
            if isinstance(node.target, torch._ops.OpOverload) and not node.target.name().startswith("aten::sym_"):
                yield str(node.target)
            elif isinstance(node.target, torch._ops.HigherOrderOperator):
                yield node.target.name()
