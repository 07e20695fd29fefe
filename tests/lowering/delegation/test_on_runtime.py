"""Delegated programs on the official runtime: what crosses the border of a partition arrives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules_executorch.backends.reference import BACKEND_ID
from rules_executorch.backends.reference.operators import is_supported
from rules_executorch.lowering import to_edge
from rules_executorch.lowering.delegation.backend import DelegationSpec, Partitioner
from rules_executorch.lowering.delegation.delegation_info import get_delegation_info
from rules_executorch.lowering.delegation.partitioning import partition_supported
from support.delegation import delegates_of
from support.official_runtime import run_methods
from support.reference_runtime import library
from torch.export import Dim

X = torch.linspace(-1, 1.5, 6).reshape(2, 3)  # sums are well away from 0, where rounding decides a branch
ROWS = ({0: Dim("rows", min=1, max=9)},)


class Reference(Partitioner):
    """What the reference backend supports, except what `refused` says."""

    def __init__(self, refused: Any = lambda node: False, own_state: bool = True):
        self.refused, self.own_state = refused, own_state

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        return partition_supported(
            exported_program, lambda node: is_supported(node) and not self.refused(node), DelegationSpec(BACKEND_ID),
            own_mutated_buffers=self.own_state,
        )  # fmt: skip


def check(module: torch.nn.Module, partitioner: Any, *calls: tuple[Any, ...], dynamic_shapes: Any = None) -> Any:
    """Delegate, run on the runtime, compare with eager; returns the delegated program."""
    eager = copy.deepcopy(module.eval())
    with torch.no_grad():
        exported = torch.export.export(module, calls[0], dynamic_shapes=dynamic_shapes)
        lowered = to_edge(exported).to_backend(partitioner)
        expected = [[copy.deepcopy(v) for v in torch.utils._pytree.tree_leaves(eager(*call))] for call in calls]
    pte = lowered.to_executorch().buffer
    results = run_methods(pte, [("forward", call) for call in calls], backends=[library()])
    torch.testing.assert_close(results, expected, atol=1e-5, rtol=1e-5)
    return lowered.exported_program()


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = torch.cond(
            x.sum() > 0, lambda x: torch.sin(torch.relu(x) * self.weight), lambda x: torch.cos(torch.tanh(x)), (x,)
        )
        return torch.cond(y.sum() > 1, lambda y: torch.relu(y) + 1, lambda y: torch.tanh(y * self.weight), (y + x,))


def test_partitions_in_branches() -> None:
    program = check(Branches(), Reference(), (X,), (X + 1,), (X - 1,), (X + 3,))
    inside = [node for node in delegates_of(program) if node.graph is not program.graph]
    assert len(inside) == 4


def test_partitions_in_loops() -> None:
    class Loop(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            def body(i, z):  # type: ignore[no-untyped-def]
                return i + 1, torch.sin(torch.tanh(z) + z)

            return torch.while_loop(lambda i, z: i < 4, body, (torch.zeros((), dtype=torch.int64), x))[1]

    program = check(Loop(), Reference(lambda node: not node.name.startswith(("tanh", "add"))), (X,), (X * 2,))
    assert delegates_of(program)


class Stateful(torch.nn.Module):
    """The new value of the state is used in the delegate, outside of it, and returned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((3,), 0.5))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.total.copy_(torch.tanh(self.total + x[0]))
        return torch.sin(self.total) + torch.relu(self.total), self.total + 0


@pytest.mark.parametrize("own_state", [True, False])
def test_state_on_either_side(own_state: bool) -> None:
    program = check(Stateful(), Reference(own_state=own_state), (X,), (X + 1,), (X,))
    assert (list(program.graph_signature.buffers_to_mutate.values()) == []) is own_state


def test_sizes_cross_the_border_as_integers() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            n = x.shape[0] * 3
            return torch.sin(torch.relu(x).reshape(n)).reshape(3, x.shape[0]) + n

    grown = [(torch.randn(rows, 3),) for rows in (1, 9, 4)]
    for refused in ("nothing", "sym", "mul", "view"):
        check(Sizes(), Reference(lambda node: refused in node.name), (X,), *grown, dynamic_shapes=ROWS)


def test_a_delegate_can_return_a_size() -> None:
    class Size(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.cumsum(torch.relu(x), 0).reshape(x.shape[0] * 3)

    program = check(Size(), Reference(lambda n: "view" in n.name), (X,), (torch.randn(7, 3),), dynamic_shapes=ROWS)
    outputs = [value for node in delegates_of(program) for value in node.meta["val"]]
    assert any(isinstance(value, torch.SymInt) for value in outputs)


class Random(torch.nn.Module):
    """Random operators on earlier values: constants in several places, several results, branches, a loop, state."""

    def __init__(self, picks: list[tuple[str, int, int]]):
        super().__init__()
        self.picks = picks
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 3))
        self.register_buffer("state", torch.linspace(0, 1, 3))
        self.operators = {
            "add": torch.add,
            "tanh": lambda a, b: torch.tanh(a),
            "sin": lambda a, b: torch.sin(a) * b,
            "cat": lambda a, b: torch.cat([a, b])[: a.shape[0]],
            "weighted": lambda a, b: torch.relu(a * self.weight) + b,
            "split": lambda a, b: torch.cat([part * 2 for part in torch.split(a + b, [1, 2], 1)][::-1], 1),
            "largest": lambda a, b: torch.max(a, 1, keepdim=True)[0] + b,
            "branch": lambda a, b: torch.cond(
                a.shape[0] > 3, lambda a, b: torch.tanh(a) * 2 + b, lambda a, b: torch.sin(b) - torch.relu(a), (a, b)
            ),
            "loop": lambda a, b: torch.while_loop(
                lambda i, a, b: i < 3,
                lambda i, a, b: (i + 1, torch.tanh(torch.relu(a) + b), b.clone()),
                (torch.zeros((), dtype=torch.int64), a, b),
            )[1],
        }

    def forward(self, x):  # type: ignore[no-untyped-def]
        values = [x, x * self.weight, x + self.state]
        for kind, first, second in self.picks:
            values.append(self.operators[kind](values[first % len(values)], values[second % len(values)]))
        self.state.copy_(torch.tanh(values[-1][0]))
        return values[-1], values[len(values) // 2] * self.state


class Refusing(Reference):
    """As Reference, with one partition or many, where constants may be shared by partitions and what is left."""

    def __init__(self, refused: set[int], own_state: bool, share: bool):
        super().__init__(lambda node: sum(map(ord, node.name)) % 41 in refused, own_state)
        self.share = share

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        return partition_supported(
            exported_program, lambda node: is_supported(node) and not self.refused(node), DelegationSpec(BACKEND_ID),
            own_mutated_buffers=self.own_state, share_constants=self.share,
        )  # fmt: skip


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_partitions_of_random_programs_with_state(data: st.DataObject) -> None:
    kinds = st.sampled_from(list(Random([]).operators))
    pick = st.tuples(kinds, st.integers(0, 9), st.integers(0, 9))
    module = Random(data.draw(st.lists(pick, min_size=1, max_size=8)))
    refused = data.draw(st.sets(st.integers(0, 40)))
    partitioners = [
        Refusing(refused, own_state=data.draw(st.booleans()), share=data.draw(st.booleans())),
        *([Reference()] if data.draw(st.booleans()) else []),  # takes what the first has left
    ]
    program = check(module, partitioners, (X,), (X * 2,), (torch.randn(5, 3),), dynamic_shapes=ROWS)
    assert get_delegation_info(program).num_delegated_subgraphs == len(delegates_of(program))
