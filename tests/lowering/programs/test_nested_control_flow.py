"""Loops and branches in one another, with state, dynamic sizes and delegates within."""

from __future__ import annotations

import pytest
import torch
from rules_executorch.backends.reference import BACKEND_ID
from rules_executorch.backends.reference.operators import is_supported
from rules_executorch.lowering import DelegationSpec, Partitioner
from rules_executorch.lowering.delegation.partitioning import partition_supported
from support.modules import Apply
from support.programs import assert_matches, forward, lowered, plan_of
from support.reference_runtime import library
from torch._higher_order_ops.map import map as map_
from torch._higher_order_ops.scan import scan
from torch.export import Dim

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -4.0]])


def collatz(x: torch.Tensor) -> torch.Tensor:
    """A branch in a loop."""

    def body(n: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, (n,)), steps + 1

    start = x.to(torch.long).sum().abs() + 1
    return torch.while_loop(lambda n, steps: n > 1, body, (start, torch.zeros((), dtype=torch.long)))[1]


def loop_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    def grow(x: torch.Tensor) -> torch.Tensor:
        return torch.while_loop(lambda y: y.sum() < 100, lambda y: (y * 2 + 1,), (x,))[0]

    return torch.cond(x.sum() > 0, grow, lambda x: x - 1, (x,))


def loop_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    def outer(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = torch.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z + x * j), (torch.zeros_like(i), y))
        return i + 1, torch.tanh(inner[1])

    return torch.while_loop(lambda i, y: i < 4, outer, (torch.zeros((), dtype=torch.long), x))[1]


def branch_in_a_map(x: torch.Tensor) -> torch.Tensor:
    return map_(lambda row: torch.cond(row.sum() > 0, lambda r: r * 2, lambda r: r - 5, (row,)), x)


def branch_in_a_scan(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = torch.cond((carry + row).sum() > 0, lambda c, r: c + r, lambda c, r: c - r, (carry, row))
        return new, new * row

    return scan(step, torch.zeros(3), x)


NESTED = [collatz, loop_in_a_branch, loop_in_a_loop, branch_in_a_map, branch_in_a_scan]


@pytest.mark.parametrize("function", NESTED)
def test_nested_control_flow(function) -> None:  # type: ignore[no-untyped-def]
    assert_matches(lowered(Apply(function), X), Apply(function), *forward([X], [X * -3], [X + 0.3], [X]))


class Everything(Partitioner):
    """All that the reference backend has, in bodies too."""

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        return partition_supported(exported_program, is_supported, DelegationSpec(BACKEND_ID))


@pytest.mark.parametrize("function", [loop_in_a_branch, loop_in_a_loop, branch_in_a_map, branch_in_a_scan])
def test_nested_control_flow_with_delegates(function) -> None:  # type: ignore[no-untyped-def]
    program = lowered(Apply(function), X, partitioner=Everything())
    assert plan_of(program).delegates
    assert_matches(program, Apply(function), *forward([X], [X * -3], [X + 0.3]), backends=[library()])


@pytest.mark.parametrize("function", [loop_in_a_branch, loop_in_a_loop])
def test_nested_control_flow_of_dynamic_size(function) -> None:  # type: ignore[no-untyped-def]
    rows = (({0: Dim("rows", min=2, max=9)},),)
    program = lowered(Apply(function), X, dynamic_shapes=rows)
    assert_matches(program, Apply(function), *forward([X], [torch.randn(9, 3).abs()], [-X], [torch.randn(5, 3)]))
