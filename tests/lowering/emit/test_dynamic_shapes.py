"""Dynamic shapes: upper bounds in the file, actual sizes at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.format import schema
from support.emission import check, emit
from support.modules import Apply
from support.official_runtime import RuntimeFailure, run_method
from rules_executorch.lowering.format.write import pte_bytes

ROWS = {0: Dim("rows", min=1, max=10)}


def rows(*counts: int) -> list[tuple[torch.Tensor]]:
    return [(torch.randn(count, 6),) for count in counts]


CASES: dict[str, Callable[..., Any]] = {
    "elementwise": lambda a: a * 2 + a,
    "matrix product": lambda a: a @ a.t(),
    "flatten": lambda a: a.relu().flatten().neg(),
    "reshape by size": lambda a: a.relu().view(a.shape[0] * 2, 3).neg(),
    "reshape with two dynamic sizes": lambda a: (a @ a.t()).view(a.shape[0], 1, a.shape[0]).neg(),
    "unsqueeze twice": lambda a: a.relu().unsqueeze(0).unsqueeze(-1).neg(),
    "arithmetic on sizes": lambda a: a * (a.shape[0] * 3 - 1) / (a.shape[0] + 2),
    "floor division and remainder": lambda a: a * (a.shape[0] // 3) + (a.shape[0] % 3),
    "maximum of sizes": lambda a: a * max(a.shape[0], 4),
    "range": lambda a: a + torch.arange(a.shape[0]).unsqueeze(1),
    "zeros": lambda a: torch.cat([a, torch.zeros(a.shape[0], 2)], 1),
    "cat along the dynamic dimension": lambda a: torch.cat([a, a + 1], 0),
    "slice to the size": lambda a: a[:, : a.shape[1] // 2] + a[: a.shape[0], 3:],
    "sizes returned": lambda a: (a.shape[0], a.shape[0] * 2 + 1, a + 1),
    "nothing computed": lambda a: a,
    "mean": lambda a: a.mean(0),
    "softmax": lambda a: torch.softmax(a, 0),
    "expand": lambda a: a.unsqueeze(0).expand(3, a.shape[0], 6) * 2,
    "returned view": lambda a: (a.relu().unsqueeze(0), a.unsqueeze(0), a.relu().view(-1)),
    "positions looked up": lambda a: torch.nn.functional.embedding(torch.arange(a.shape[0]), torch.ones(10, 6)) + a,
    "causal mask": lambda a: (a @ a.t()).masked_fill(torch.ones(a.shape[0], a.shape[0]).tril() == 0, float("-inf")),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_eager_at_every_size(name: str) -> None:
    check(Apply(CASES[name]), *rows(4, 10, 1, 7), dynamic_shapes=((ROWS,),))


@pytest.mark.parametrize("name", CASES)
def test_equals_eager_with_the_callers_memory(name: str) -> None:
    config = EmitConfig(memory=MemoryConfig(alloc_graph_input=False, alloc_graph_output=False))
    check(Apply(CASES[name]), *rows(4, 10, 1), dynamic_shapes=((ROWS,),), config=config)


def test_sizes_that_depend_on_data() -> None:
    def forward(a: torch.Tensor) -> Any:
        where = torch.nonzero(a > 0)
        return where, torch.masked_select(a, a > 0.5) * 2

    check(Apply(forward), *rows(4, 10, 1), (-torch.ones(2, 6),), dynamic_shapes=((ROWS,),))


def test_views_of_results_that_may_be_empty() -> None:
    def forward(a: torch.Tensor) -> Any:
        found = torch.masked_select(a, a > 0.5)
        return found.unsqueeze(1).neg(), found.unsqueeze(0).exp(), torch.nonzero(a > 0.5).flatten() + 1

    check(Apply(forward), *rows(4, 10), (-torch.ones(2, 6),), *rows(3), dynamic_shapes=((ROWS,),))


def test_two_dynamic_inputs() -> None:
    module = Apply(lambda a, b: (a @ b).relu() + a.sum(1, keepdim=True))
    shapes = (({0: Dim("n", max=5), 1: Dim("k", max=7)}, {0: Dim("k", max=7)}),)
    check(module, *[(torch.randn(n, k), torch.randn(k, 3)) for n, k in ((3, 4), (5, 7), (2, 2))], dynamic_shapes=shapes)


def test_sizes_in_the_file_are_upper_bounds() -> None:
    emitted = emit(Apply(lambda a: a + 1), (torch.randn(4, 6),), (({0: Dim("rows", min=1, max=10)},),))
    plan = emitted.program_file.program.execution_plan[0]
    tensor = plan.values[plan.inputs[0]]
    assert isinstance(tensor, schema.Tensor)
    assert tensor.sizes == (10, 6) and tensor.shape_dynamism == schema.Dynamism.BOUNDED
    with pytest.raises(RuntimeFailure):
        run_method(pte_bytes(emitted), [torch.randn(11, 6)])


def test_a_dimension_without_a_bound_is_an_error_that_says_how_to_bound_it() -> None:
    with pytest.raises(LoweringError, match=r"no upper bound(.|\n)*max="):
        emit(Apply(lambda a: a + 1), (torch.randn(4, 6),), (({0: Dim.DYNAMIC},),))


def test_a_number_as_input_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LoweringError, match=r"number that varies(.|\n)*item"):
        emit(Apply(lambda a, n: a * n), (torch.randn(4), 3), ((None, Dim.DYNAMIC),))


def test_numbers_and_none_that_are_fixed_may_be_inputs() -> None:
    emitted = emit(Apply(lambda a, n, none, flag: a * n if flag else a), (torch.ones(2), 3, None, True))
    plan = emitted.program_file.program.execution_plan[0]
    assert [type(plan.values[index]).__name__ for index in plan.inputs] == ["Tensor", "Int", "Null", "Bool"]
    (output,) = run_method(pte_bytes(emitted), [torch.ones(2), 3, None, True])
    assert torch.equal(output, torch.full((2,), 3.0))
