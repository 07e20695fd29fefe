"""Compares what a program computes with what eager PyTorch does, value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Tolerance:
    """How far a value may be from the expected one: `atol`, plus `rtol` times the expected magnitude."""

    atol: float = 1e-4
    rtol: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """The outputs of one call against the expected ones.

    `max_difference` is the largest absolute difference of two finite values. `mismatch` says what
    is wrong with the first output that is beyond the tolerance, None where all are within.
    """

    max_difference: float
    mismatch: str | None


def compare(actual: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance) -> Comparison:
    """Compare flat outputs: tensors by shape, dtype and values (NaN equals NaN), all else as tensors of one value."""
    if len(actual) != len(expected):
        return Comparison(float("inf"), f"{len(actual)} outputs, expected {len(expected)}")
    worst, mismatch = 0.0, None
    for index, (got, wanted) in enumerate(zip(actual, expected)):
        difference, wrong = _compare_one(torch.as_tensor(got), torch.as_tensor(wanted), tolerance)
        worst = max(worst, difference)
        if wrong and mismatch is None:
            mismatch = f"output {index}: {wrong}"
    return Comparison(worst, mismatch)


def _compare_one(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> tuple[float, str | None]:
    if actual.shape != expected.shape:
        return float("inf"), f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return float("inf"), f"dtype {actual.dtype}, expected {expected.dtype}"
    if actual.numel() == 0:
        return 0.0, None
    # Integers beyond 2**53 differ in double precision only where they differ by more than rounding does.
    got, wanted = actual.detach().flatten().double(), expected.detach().flatten().double()
    same = (actual.detach().flatten() == expected.detach().flatten()) | (got.isnan() & wanted.isnan())
    difference = torch.where(same, 0.0, (got - wanted).abs())
    beyond = ~same & ~(difference <= tolerance.atol + tolerance.rtol * wanted.abs())
    finite = difference[difference.isfinite()]
    largest = float(finite.max()) if len(finite) else 0.0
    if not beyond.any():
        return largest, None
    position = int(torch.where(beyond, difference.nan_to_num(nan=torch.inf, posinf=torch.inf), -1.0).argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(position), actual.shape)]
    count = int(beyond.sum())
    return (
        float(difference.nan_to_num(nan=torch.inf, posinf=torch.inf).max()),
        f"{count} of {actual.numel()} values differ too much, most at {place}: "
        f"{got[position]:.9g}, expected {wanted[position]:.9g}",
    )
