"""A call lowered with a bounded first dimension runs at sizes other than that of its example, and agrees with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.emission import emit
from support.modules import Apply
from support.official_runtime import run_method
from support.operator_cases import KERNELS, Call, r
from torch.export import Dim
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering.format.write import pte_bytes


def rows(inputs: tuple[Any, ...]) -> int:
    """The size of the first dimension that is made dynamic: that of the first tensor that has several rows."""
    return next((t.shape[0] for t in inputs if isinstance(t, torch.Tensor) and t.dim() and t.shape[0] > 1), 0)


def with_one_more_row(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    def grown(value: Any) -> Any:
        if not (isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == rows(inputs)):
            return value
        more = torch.cat([value, value[:1]])
        return more if value.is_contiguous() else more.contiguous(memory_format=torch.channels_last)

    return tuple(map(grown, inputs))


def holds(function: Callable[..., Any], inputs: tuple[Any, ...]) -> bool:
    try:
        function(*copy.deepcopy(inputs))
    except (RuntimeError, IndexError):
        return False
    return True


def calls() -> Iterator[Any]:
    """For each kernel, the last of its calls that can have one more row."""
    for kernel, calls_of in KERNELS.items():
        fitting = [call for call in calls_of if rows(call[1]) and holds(call[0], with_one_more_row(call[1]))]
        if fitting:
            yield pytest.param(fitting[-1], id=kernel)


def check(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    count, more = rows(inputs), with_one_more_row(inputs)
    dimension = {0: Dim("rows", min=count, max=4 * count)}
    dynamic = tuple(
        dimension if isinstance(t, torch.Tensor) and t.dim() and t.shape[0] == count else None for t in inputs
    )
    expected = tree_leaves(function(*copy.deepcopy(more)))
    outputs = run_method(pte_bytes(emit(Apply(function), inputs, (dynamic,))), copy.deepcopy(more))
    torch.testing.assert_close(outputs, expected, atol=5e-3, rtol=5e-3, equal_nan=True)


@pytest.mark.parametrize("call", calls())
def test_a_kernel_is_called_with_other_sizes_than_its_example(call: Call) -> None:
    check(*call)


@pytest.mark.parametrize(
    "function, inputs",
    [
        pytest.param(lambda x: F.pad(x, (-1, 1)), (r(2, 3),), id="pad that cuts off"),
        pytest.param(lambda x: x + 0.5, (r(4, dtype=torch.int32),), id="float added to integers"),
        pytest.param(lambda x: F.pad(x, (1, 1, 2, 0), value=2.0), (r(2, 3, 4),), id="pad of two dimensions"),
    ],
)
def test_a_decomposition_does_not_hold_for_the_example_only(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    check(function, inputs)
