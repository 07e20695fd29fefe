"""Whole programs on the reference backend, on the official runtime: methods, state, sizes, errors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.backends.reference import BACKEND_ID, ReferencePartitioner
from rules_executorch.lowering import to_edge, to_edge_transform_and_lower
from rules_executorch.lowering.delegation.backend import CompileSpec, DelegationSpec
from rules_executorch.lowering.delegation.lowered_module import executorch_call_delegate, lowered_modules
from rules_executorch.lowering.delegation.to_backend import to_backend
from rules_executorch.lowering.errors import LoweringError
from support.official_runtime import RuntimeFailure, run_methods
from support.reference_runtime import library
from torch.export import Dim

WHOLE = DelegationSpec(BACKEND_ID)


def lower(programs: Any, delegation: Any = WHOLE) -> Any:
    return to_edge_transform_and_lower(programs, partitioner=delegation)


def run(lowered: Any, *calls: tuple[str, Sequence[Any]]) -> list[list[Any]]:
    return run_methods(lowered.to_executorch().buffer, calls, backends=[library()])


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(1000, 16)
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, tokens):  # type: ignore[no-untyped-def]
        return torch.tanh(self.linear(self.table(tokens)))


class Scores(torch.nn.Module):
    def __init__(self, tied: Tied):
        super().__init__()
        self.tied = tied

    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.nn.functional.linear(x, self.tied.table.weight)


@pytest.mark.parametrize("delegation", [WHOLE, ReferencePartitioner()], ids=["whole", "partitioned"])
def test_methods_share_weights_through_named_data(delegation: Any) -> None:
    tied = Tied().eval()
    scores = Scores(tied).eval()
    tokens, x = torch.tensor([3, 1]), torch.randn(2, 16)
    programs = {"embed": torch.export.export(tied, (tokens,)), "score": torch.export.export(scores, (x,))}
    lowered = lower(programs, delegation)
    table = tied.table.weight.detach().numpy().tobytes()
    assert lowered.to_executorch().buffer.count(table) == 1
    results = run(lowered, ("embed", [tokens]), ("score", [x]))
    torch.testing.assert_close(results, [[tied(tokens)], [scores(x)]])


class Accumulate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((1, 3), 2.0))

    def forward(self, x):  # type: ignore[no-untyped-def]
        before = self.total * 3
        self.total.add_(x)
        return before, self.total, self.total * 2


@pytest.mark.parametrize("delegation", [WHOLE, ReferencePartitioner()], ids=["whole", "partitioned"])
def test_a_delegate_keeps_its_state(delegation: Any) -> None:
    module, x = Accumulate(), torch.ones(1, 3)
    lowered = lower(torch.export.export(copy.deepcopy(module), (x,)), delegation)
    assert lowered.exported_program().state_dict == {}
    results = run(lowered, ("forward", [x]), ("forward", [x * 3]), ("forward", [x]))
    expected = [[value.clone() for value in module(call)] for call in (x, x * 3, x)]
    torch.testing.assert_close(results, expected)


class Mixed(torch.nn.Module):
    """Only partly for the backend, with sizes on both sides."""

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = torch.sin(torch.relu(x) + 1)
        y = torch.tanh(y.reshape(x.shape[0] * 4)).reshape(-1, 4)
        return torch.cumsum(y, 0) * 2


def test_what_the_backend_does_not_take_runs_on_the_cpu() -> None:
    x = torch.randn(3, 4)
    program = torch.export.export(Mixed(), (x,), dynamic_shapes=({0: Dim("n", min=1, max=8)},))
    lowered = lower(program, [ReferencePartitioner()])
    assert len(list(lowered_modules(lowered.exported_program().graph_module))) == 3
    calls = [x, torch.randn(8, 4), torch.randn(1, 4)]
    results = run(lowered, *(("forward", [call]) for call in calls))
    torch.testing.assert_close(results, [[Mixed()(call)] for call in calls])


def test_more_than_the_bound_is_refused_at_run_time() -> None:
    program = torch.export.export(Tied(), (torch.tensor([3, 1]),), dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    with pytest.raises(RuntimeFailure):
        run(lower(program), ("forward", [torch.tensor([1, 2, 3, 4, 5])]))


def test_an_index_outside_of_the_table_is_refused_at_run_time() -> None:
    program = torch.export.export(Tied(), (torch.tensor([3, 1]),))
    for bad in (-1, 1000):
        with pytest.raises(RuntimeFailure, match="0x12"):
            run(lower(program), ("forward", [torch.tensor([0, bad])]))


def test_an_unsupported_operator_in_a_whole_graph_is_an_error_of_the_build() -> None:
    program = torch.export.export(Mixed(), (torch.randn(3, 4),))
    with pytest.raises(LoweringError, match="does not take aten.sin.default: it has no such operator") as caught:
        lower(program)
    message = str(caught.value)
    assert "test_programs.py" in message and "torch.sin(torch.relu(x) + 1)" in message
    assert "1. delegate with ReferencePartitioner" in message


def test_an_unsupported_type_is_named() -> None:
    program = torch.export.export(Accumulate(), (torch.ones(1, 3, dtype=torch.float64),))
    with pytest.raises(LoweringError, match="float64"):
        lower(program)


def test_an_option_is_refused() -> None:
    program = torch.export.export(Tied(), (torch.tensor([3, 1]),))
    with pytest.raises(LoweringError, match="has no option 'fast'"):
        lower(program, DelegationSpec(BACKEND_ID, [CompileSpec("fast", b"1")]))


def test_debug_handles_map_instructions_to_nodes() -> None:
    program = torch.export.export(Tied(), (torch.tensor([3, 1]),))
    (delegate,) = lowered_modules(lower(program).exported_program().graph_module)
    nodes = [node for node in delegate.original_program.graph.nodes if node.op == "call_function"]
    handles = [node.meta["debug_handle"] for node in nodes]
    assert list(delegate.debug_handle_map.values()) == [(handle,) for handle in handles]


class Echo(torch.nn.Module):
    """Outputs that are inputs, constants, and each other."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = torch.relu(x)
        return x, y, self.weight, y


def test_a_delegate_made_by_hand_is_called_from_another_model() -> None:
    class Caller(torch.nn.Module):
        def __init__(self, delegate: torch.nn.Module):
            super().__init__()
            self.delegate = delegate

        def forward(self, x):  # type: ignore[no-untyped-def]
            a, b, c, d = executorch_call_delegate(self.delegate, torch.sin(x))
            return a + b, c * 2, d

    x = torch.randn(2, 3)
    delegate = to_backend(BACKEND_ID, to_edge(torch.export.export(Echo(), (x,))).exported_program())
    with torch.no_grad():
        lowered = to_edge(torch.export.export(Caller(delegate), (x,)))
    s = torch.sin(x)
    expected = [s + torch.relu(s), torch.full((3,), 2.0), torch.relu(s)]
    torch.testing.assert_close(run(lowered, ("forward", [x])), [expected])


class RandomGraph(torch.nn.Module):
    """Operators of the backend and others, on earlier values of shape [n, 4]."""

    def __init__(self, picks: list[tuple[int, int, int]]):
        super().__init__()
        self.picks = picks
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):  # type: ignore[no-untyped-def]
        values = [x]
        for kind, first, second in self.picks:
            a, b = values[first % len(values)], values[second % len(values)]
            values.append(self._apply(kind, a, b))
        return values[-1], values[len(values) // 2]

    def _apply(self, kind: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        operations = [
            lambda: a + b, lambda: a * 0.5, lambda: self.linear(a), lambda: torch.softmax(a, -1), lambda: self.norm(b),
            lambda: torch.cat([a, b], 1)[:, 2:6], lambda: torch.matmul(torch.matmul(a, b.transpose(0, 1)), b) * 0.1,
            lambda: torch.where(a > b, a, b), lambda: torch.sin(a), lambda: torch.cos(b),
            lambda: a.reshape(a.shape[0] * 2, 2).reshape(-1, 4),
            lambda: torch.tanh(a).unsqueeze(1).expand(-1, 2, 4)[:, 1],
        ]  # fmt: skip
        return operations[kind % len(operations)]()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=10))
def test_random_programs_partitioned(picks: list[tuple[int, int, int]]) -> None:
    torch.manual_seed(0)
    module = RandomGraph(picks).eval()
    x = torch.randn(3, 4)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: Dim("n", min=2, max=6)},))
    calls = [x, torch.randn(6, 4), torch.randn(2, 4)]
    results = run(lower(program, [ReferencePartitioner()]), *(("forward", [call]) for call in calls))
    torch.testing.assert_close(results, [list(module(call)) for call in calls], atol=1e-4, rtol=1e-4)
