"""Calls of every kernel on inputs of other dtypes and shapes: they agree with eager, or the build refuses them.

What eager or torch.export refuses says nothing of the engine. Never may a program be made that the runtime refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.modules import Apply
from support.official_runtime import run_method
from support.operator_cases import KERNELS
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering import LoweringError, to_edge

DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip


def empty(tensor: torch.Tensor) -> torch.Tensor:
    # In the default layout: the runtime's Python bindings end the process for an empty tensor in another.
    return tensor.new_empty((0, *tensor.shape[1:])) if tensor.dim() else tensor


def one(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1] if tensor.dim() else tensor


def number(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten()[0] if tensor.numel() else tensor


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


SHAPES = (torch.clone, empty, one, number, channels_last)


def cast(inputs: tuple[Any, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """The inputs with those that hold the values in `dtype`: the floats, or all where there are none."""
    floats = any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in inputs)

    def to_dtype(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or floats and not value.is_floating_point():
            return value
        signed = value.dtype == torch.bool or dtype != torch.uint8
        return (value if signed else value.abs()).to(dtype)

    return tuple(map(to_dtype, inputs))


def accepted(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, torch.export.ExportedProgram] | None:
    """What eager gives, and the exported program; None where either refuses the inputs."""
    try:
        return tree_leaves(function(*copy.deepcopy(inputs))), torch.export.export(Apply(function), inputs)
    except Exception:  # noqa: BLE001  (PyTorch refuses by errors of many types)
        return None


CALLS = [call for calls in KERNELS.values() for call in calls]
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.sampled_from(CALLS), st.sampled_from(DTYPES), st.sampled_from(SHAPES))
def test_it_agrees_with_eager_or_is_refused(
    call: tuple[Any, Any], dtype: torch.dtype, shape: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    function, inputs = call
    inputs = tuple(shape(t) if isinstance(t, torch.Tensor) else t for t in cast(inputs, dtype))
    known = accepted(function, inputs)
    assume(known is not None)
    expected, program = known
    try:
        pte = to_edge(program).to_executorch().buffer
    except LoweringError:
        return
    outputs = run_method(pte, copy.deepcopy(inputs))
    for output, wanted in zip(outputs, expected, strict=True):
        tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2}.get(wanted.dtype, 1e-4)
        torch.testing.assert_close(output, wanted, atol=tolerance, rtol=tolerance, equal_nan=True)
