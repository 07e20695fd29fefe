"""Every kernel of the stock runtime is reached by programs, and gives on the official runtime what eager gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.emission import emit
from support.official_runtime import run_method
from support.operator_cases import KERNELS, UNREACHED
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering.format.write import pte_bytes
from rules_executorch.lowering.operators import stock

CALLS = [
    pytest.param(kernel, function, inputs, id=f"{kernel}-{number}")
    for kernel, calls in KERNELS.items()
    for number, (function, inputs) in enumerate(calls)
]


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize(("kernel", "function", "inputs"), CALLS)
def test_a_call_comes_to_its_kernel_and_agrees_with_eager(
    kernel: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    expected = tree_leaves(function(*copy.deepcopy(inputs)))
    emitted = emit(Function(function), inputs)
    used = {str(operator) for operator in emitted.program_file.program.execution_plan[0].operators}
    assert f"aten::{kernel}" in used or not any(t.numel() for t in expected)
    outputs = run_method(pte_bytes(emitted), copy.deepcopy(inputs))
    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected):
        tolerance = {torch.float16: 5e-3, torch.bfloat16: 3e-2}.get(wanted.dtype, 1e-4)
        torch.testing.assert_close(output, wanted, atol=tolerance, rtol=tolerance, equal_nan=True)


def test_every_kernel_has_a_call_or_a_reason() -> None:
    reached = {f"aten::{kernel}" for kernel, calls in KERNELS.items() if calls}
    kernels = {name for name in stock.names if name.startswith("aten::")}
    assert kernels - reached - UNREACHED.keys() == set()
    assert reached & UNREACHED.keys() == set()
