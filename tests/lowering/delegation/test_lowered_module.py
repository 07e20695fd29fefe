"""A delegate in a graph: in eager mode, under fake tensors, exported again, copied."""

from __future__ import annotations

import copy

import pytest
import torch
from rules_executorch.lowering.delegation.backend import DelegationSpec
from rules_executorch.lowering.delegation.lowered_module import (
    LoweredBackendModule,
    called_module,
    executorch_call_delegate,
    lowered_modules,
)
from rules_executorch.lowering.delegation.to_backend import to_backend
from support.delegation import TagBy, delegates_of, export
from torch._subclasses import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import ShapeEnv

X = torch.ones(2, 3)
ROWS = ({0: Dim("rows", min=1, max=9)},)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.calls.add_(1)
        return self.linear(x) + self.calls


@pytest.fixture
def delegate() -> LoweredBackendModule:
    return to_backend("Recorder", export(Counter(), X, dynamic_shapes=ROWS))


def test_state_lives_on_from_call_to_call(delegate: LoweredBackendModule) -> None:
    first, second = (executorch_call_delegate(delegate, X)[0] for _ in range(2))
    torch.testing.assert_close(second, first + 1)


def test_a_copy_shares_weights_and_has_its_own_state(delegate: LoweredBackendModule) -> None:
    delegate(X)
    twin = copy.deepcopy(delegate)
    assert twin.original_program is delegate.original_program
    torch.testing.assert_close(twin(X), delegate(X))
    delegate(X)
    torch.testing.assert_close(twin(X)[0] + 1, delegate(X)[0])


def test_fake_tensors_run_through_and_change_nothing(delegate: LoweredBackendModule) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        (result,) = executorch_call_delegate(delegate, mode.from_tensor(X, static_shapes=False))
    assert isinstance(result, torch._subclasses.FakeTensor)
    assert tuple(result.shape) == (2, 3)
    first, second = delegate(X)[0], delegate(X)[0]
    torch.testing.assert_close(second, first + 1)


def test_a_delegate_can_be_exported_again_with_dynamic_sizes(delegate: LoweredBackendModule) -> None:
    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.delegate = copy.deepcopy(delegate)

        def forward(self, x):  # type: ignore[no-untyped-def]
            return executorch_call_delegate(self.delegate, x)[0] * 2

    program = torch.export.export(Around(), (X,), dynamic_shapes=ROWS).run_decompositions()
    assert len(delegates_of(program)) == 1
    many = torch.ones(7, 3)
    torch.testing.assert_close(program.module()(many), delegate(many)[0] * 2)


def test_a_delegate_without_inputs() -> None:
    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self):  # type: ignore[no-untyped-def]
            return torch.sin(self.weight)

    program = export(Constant())
    delegated = to_backend(program, DelegationSpec("Recorder"))
    torch.testing.assert_close(delegated.module()(), program.module()())


def test_delegates_are_found_in_graph_order() -> None:
    program = export(Counter(), X)
    delegated = to_backend(program, TagBy(lambda node: node.name))
    found = [called_module(node) for node in delegates_of(delegated)]
    assert found == list(lowered_modules(delegated.graph_module))
    assert len(found) == 3
