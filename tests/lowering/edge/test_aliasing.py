"""Mutation through views is resolved without tracing the program again, as random programs show."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.edge.verify import verify_edge_program


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor):
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def edge_without_retracing(module: torch.nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    exported = torch.export.export(module, inputs)
    with mock.patch.object(ExportedProgram, "run_decompositions", side_effect=AssertionError("traced again")):
        edge = to_edge_program(exported)
    verify_edge_program(edge)
    return edge


def assert_like_eager(module: torch.nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    edge = edge_without_retracing(copy.deepcopy(module), *inputs)
    ours, theirs = edge.module(), copy.deepcopy(module)
    for _ in range(2):  # state goes from call to call
        our_inputs, their_inputs = copy.deepcopy(inputs), copy.deepcopy(inputs)
        torch.testing.assert_close(ours(*our_inputs), theirs(*their_inputs))
        torch.testing.assert_close(our_inputs, their_inputs)
    return edge


def kinds(program: ExportedProgram) -> list[OutputKind]:
    return [spec.kind for spec in program.graph_signature.output_specs]


# Each takes a view of a tensor [a, b] with a, b ≥ 2, and gives one of the same kind.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transpose": lambda t: t.transpose(0, 1), "t": lambda t: t.t(), "permute": lambda t: t.permute(1, 0),
    "first rows": lambda t: t[:-1] if t.shape[0] > 2 else t,
    "every other column": lambda t: t[:, ::2] if t.shape[1] > 3 else t,
    "unsqueezed": lambda t: t.unsqueeze(0).squeeze(0), "split": lambda t: t.split(2, 0)[0],
    "chunk": lambda t: t.chunk(2, 1)[0] if t.shape[1] > 3 else t,
    "narrow": lambda t: t.narrow(1, 1, t.shape[1] - 1) if t.shape[1] > 2 else t, "detach": lambda t: t.detach(),
    "view": lambda t: t.view(-1).view(t.shape) if t.is_contiguous() else t, "unbind and stack": lambda t: t,
}  # fmt: skip
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda t, x: t.add_(1), "multiply": lambda t, x: t.mul_(x[0, 0]), "fill": lambda t, x: t.fill_(2),
    "zero": lambda t, x: t.zero_(),
    "copy": lambda t, x: t.copy_(x[0, 1]), "set an element": lambda t, x: t.__setitem__((0, 1), 3.0),
    "set a row": lambda t, x: t.__setitem__(1, x[1, 0]),
    "relu": lambda t, x: torch.relu_(t), "diagonal": lambda t, x: t.diagonal().add_(5), "row": lambda t,
    x: t[0].sub_(4), "unbind": lambda t, x: t.unbind(1)[1].add_(6),
    "masked": lambda t, x: t.masked_fill_(t > 0, 0.5), "other dtype": lambda t, x: t.add_(torch.tensor(2)),
    "clamp": lambda t, x: t.clamp_(min=0),
}  # fmt: skip

_STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.sampled_from(sorted(VIEWS)), max_size=3), st.sampled_from(sorted(WRITES))),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS, st.booleans())
def test_random_views_and_writes_equal_eager(steps: list[tuple[int, list[str], str]], clones: bool) -> None:
    def program(module: Function, x: torch.Tensor) -> Any:
        tensors = [x.clone() if clones else x, module.state, x * 2]
        for which, views, write in steps:
            view = tensors[which % len(tensors)]
            for name in views:
                view = VIEWS[name](view)
            WRITES[write](view, tensors[2].clone())
            tensors.append(view)
        return [t + 1 for t in tensors]

    module = Function(program, state=torch.arange(12.0).view(4, 3))
    assert_like_eager(module, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))


def test_a_written_buffer_is_an_output_of_its_own() -> None:
    edge = assert_like_eager(Function(lambda m, x: m.state.add_(x).sum(), state=torch.zeros(3)), torch.ones(3))
    assert kinds(edge) == [OutputKind.BUFFER_MUTATION, OutputKind.USER_OUTPUT]
    assert edge.graph_signature.buffers_to_mutate == {edge.graph_signature.output_specs[0].arg.name: "state"}


def test_a_written_input_is_an_output_of_its_own() -> None:
    edge = assert_like_eager(Function(lambda m, x: x[1:].mul_(2).sum()), torch.ones(3))
    assert kinds(edge) == [OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT]


def test_a_clone_is_left_alone_when_its_source_is_written() -> None:
    def program(m: Function, x: torch.Tensor) -> Any:
        before = m.state.clone()
        m.state.add_(1)
        return before, m.state.view(3, 1), before.add_(5)

    assert_like_eager(Function(program, state=torch.zeros(3)), torch.zeros(1))


def test_a_view_sees_what_its_base_is_given_later() -> None:
    def program(m: Function, x: torch.Tensor) -> Any:
        base = x * 1
        row = base[0]
        base.add_(1)
        row.mul_(2)
        return base, row

    assert_like_eager(Function(program), torch.ones(2, 3))


def test_sizes_changed_in_place_make_a_view() -> None:
    def program(m: Function, x: torch.Tensor) -> Any:
        y = x * 1
        y.unsqueeze_(0).transpose_(0, 2)
        y[0].add_(1)
        return y

    assert_like_eager(Function(program), torch.ones(2, 3))


def test_batch_norm_in_training_updates_its_statistics() -> None:
    edge = assert_like_eager(torch.nn.BatchNorm1d(3).train(), torch.randn(4, 3))
    assert kinds(edge).count(OutputKind.BUFFER_MUTATION) == 3


def test_the_exported_program_is_left_as_it_was() -> None:
    exported = torch.export.export(Function(lambda m, x: m.state.add_(x), state=torch.zeros(3)), (torch.ones(3),))
    before = str(exported.graph), str(exported.graph_signature), sorted(exported.state_dict)
    to_edge_program(exported)
    assert before == (str(exported.graph), str(exported.graph_signature), sorted(exported.state_dict))


@pytest.mark.parametrize("region", ["no_grad", "autocast off"])
def test_mode_regions_are_inlined(region: str) -> None:
    def program(m: Function, x: torch.Tensor) -> Any:
        y = x * 2
        with torch.no_grad() if region == "no_grad" else torch.autocast("cpu", enabled=False):
            z = y.add_(1) * 3
        return y + z

    assert_like_eager(Function(program), torch.ones(3))
