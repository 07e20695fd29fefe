"""Counting what was delegated."""

from __future__ import annotations

import torch
from rules_executorch.lowering.delegation.delegation_info import OperatorCount, get_delegation_info
from rules_executorch.lowering.delegation.to_backend import to_backend
from support.delegation import TagBy, export, tag_named

X = torch.ones(2, 3)


class Branches(torch.nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        y = torch.cond(x.sum() > 0, lambda x: torch.sin(x) + 1, lambda x: torch.cos(x), (x,))
        return torch.sin(y) * y.shape[0]


def test_nodes_are_counted_in_bodies_too() -> None:
    program = export(Branches(), X)
    info = get_delegation_info(to_backend(program, TagBy(lambda n: n.name if n.name.startswith("sin") else None)))
    assert info.num_delegated_subgraphs == 2
    assert info.partitions == {"Recorder": 2}
    assert info.num_delegated_nodes == 2
    assert info.by_operator["aten.sin.default"] == OperatorCount(2, 0)
    assert info.by_operator["aten.cos.default"] == OperatorCount(0, 1)
    assert info.by_operator["cond"] == OperatorCount(0, 1)
    assert sum(count.not_delegated for count in info.by_operator.values()) == info.num_non_delegated_nodes


def test_a_program_without_delegates() -> None:
    info = get_delegation_info(export(Branches(), X))
    assert (info.num_delegated_subgraphs, info.num_delegated_nodes) == (0, 0)
    assert "delegated subgraphs: 0 (none)" in info.get_summary()


def test_texts() -> None:
    class Two(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.sin(torch.cos(x))

    info = get_delegation_info(to_backend(export(Two(), X), TagBy(tag_named(sin="t"))))
    assert info.get_summary().splitlines() == [
        "delegated subgraphs: 1 (Recorder 1)",
        "delegated nodes: 1",
        "non-delegated nodes: 1",
    ]
    assert info.get_table().splitlines() == [
        "operator          delegated  not delegated",
        "aten.cos.default          0              1",
        "aten.sin.default          1              0",
    ]
