"""Views cost nothing where sizes are known, one instruction where they are not, and are right in both cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.emit.emit import EmittedProgram
from rules_executorch.lowering.format import schema
from support.emission import check
from support.modules import Apply

x = torch.randn(4, 6)


def operators(emitted: EmittedProgram) -> list[str]:
    """The kernels called, in order."""
    plan = emitted.program_file.program.execution_plan[0]
    calls = [i for i in plan.chains[0].instructions if isinstance(i, schema.KernelCall)]
    return [str(plan.operators[call.op_index]) for call in calls]


FREE: dict[str, Callable[..., Any]] = {
    "view": lambda a: a.view(2, 12),
    "flatten": lambda a: a.flatten(),
    "unsqueeze": lambda a: a.unsqueeze(1),
    "squeeze": lambda a: a.view(4, 1, 6).squeeze(1),
    "detach": lambda a: a.detach(),
    "a moved dimension of size one": lambda a: a.view(4, 1, 6).permute(1, 0, 2),
    "one index of the outermost dimension": lambda a: a[2],
    "a range of the outermost dimension": lambda a: a[1:3],
    "a range from the end": lambda a: a[-2:],
    "a view of a part of a view": lambda a: a.view(8, 3)[2:6].view(2, 6)[1],
    "clone": lambda a: a.clone(),
}


@pytest.mark.parametrize("name", FREE)
def test_views_of_static_tensors_need_no_instruction(name: str) -> None:
    view = FREE[name]
    emitted = check(Apply(lambda a: view(a.relu()).neg()), (x,), (x,))
    assert operators(emitted) == ["aten::relu.out", "aten::neg.out"]


@pytest.mark.parametrize("name", FREE)
def test_views_of_constants_need_no_instruction(name: str) -> None:
    view = FREE[name]

    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(4, 6))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return view(self.table) * a

    assert operators(check(Table(), (torch.tensor(2.0),))) == ["aten::mul.out"]


@pytest.mark.parametrize("name", FREE)
def test_views_that_are_returned_are_right(name: str) -> None:
    for memory in (MemoryConfig(), MemoryConfig(alloc_graph_output=False), MemoryConfig(alloc_graph_input=False)):
        check(Apply(lambda a: (FREE[name](a.relu()), FREE[name](a))), (x,), (x,), config=EmitConfig(memory=memory))


@pytest.mark.parametrize("name", FREE)
def test_views_of_unplanned_inputs_are_right(name: str) -> None:
    memory = MemoryConfig(alloc_graph_input=False)
    check(Apply(lambda a: FREE[name](a).neg()), (x,), (x,), config=EmitConfig(memory=memory))


def test_pieces_of_the_outermost_dimension_need_no_instruction() -> None:
    emitted = check(Apply(lambda a: [piece.neg() for piece in a.relu().unbind(0)]), (x,), (x,))
    assert operators(emitted) == ["aten::relu.out"] + ["aten::neg.out"] * 4


def test_views_of_dynamic_tensors_move_no_element() -> None:
    runs = [(torch.randn(n, 6),) for n in (4, 9, 1)]
    module = Apply(lambda a: (a.relu().unsqueeze(1).neg(), a.relu().view(-1, 3).neg(), a.relu().flatten().neg()))
    emitted = check(module, *runs, dynamic_shapes=(({0: Dim("n", min=1, max=9)},),))
    assert not {"aten::unsqueeze_copy.out", "aten::view_copy.out"} & set(operators(emitted))


DTYPE_VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "of equal size": lambda a: (a.neg().view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
    "smaller": lambda a: a.neg().view(torch.uint8).bitwise_and(127),
    "larger": lambda a: a.neg().view(torch.int64) + 1,
    "of an input": lambda a: a.view(torch.int32) + 1,
    "returned": lambda a: (a.view(torch.int32), a.neg().view(torch.int16)),
    "of a part": lambda a: a.neg()[1:, 2:4].contiguous().view(torch.int64) + 1,
    "of a constant": lambda a: a + torch.tensor([1.0, -2.0]).view(torch.int32).sum(),
}


@pytest.mark.parametrize("name", DTYPE_VIEWS)
@pytest.mark.parametrize("planned", [True, False])
def test_the_same_bytes_as_another_dtype(name: str, planned: bool) -> None:
    config = EmitConfig(memory=MemoryConfig(alloc_graph_input=planned, alloc_graph_output=planned))
    check(Apply(DTYPE_VIEWS[name]), (x,), (-x,), config=config)


def test_the_same_bytes_as_another_dtype_need_no_instruction() -> None:
    emitted = check(Apply(lambda a: a.relu().view(torch.int32) + 1), (x,))
    assert operators(emitted) == ["aten::relu.out", "aten::add.Scalar_out"]


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_same_bytes_of_a_dynamic_tensor_as_another_dtype(dtype: torch.dtype, dim: int) -> None:
    sizes = [(4, 6), (8, 6), (2, 6)] if dim == 0 else [(2, 4), (2, 8), (2, 2)]
    dynamic = ({dim: 2 * Dim("half", min=1, max=4)},)
    runs = [(torch.randn(each),) for each in sizes]
    check(Apply(lambda a: a.relu().view(dtype) + 1), *runs, dynamic_shapes=(dynamic,))


def test_a_write_through_a_view_of_another_dtype() -> None:
    class Bits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.randn(3))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            self.state.view(torch.int32).bitwise_or_(a)
            return self.state * 1

    check(Bits(), (torch.tensor([1, 1 << 20, 3], dtype=torch.int32),), (torch.tensor([8, 0, 1], dtype=torch.int32),))


def test_transposes_that_move_elements_stay() -> None:
    assert len(operators(check(Apply(lambda a: a.t().neg()), (x,)))) == 2
