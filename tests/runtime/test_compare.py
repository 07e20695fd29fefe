"""Comparing outputs: what counts as equal, and what is said of what is not."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.runtime.compare import Tolerance, compare

TOLERANCE = Tolerance(atol=1e-3, rtol=0.0)

floats = st.floats(width=32, allow_nan=True, allow_infinity=True)
finite = st.floats(-1e6, 1e6, width=32)


@settings(deadline=None)
@given(st.lists(floats, max_size=8))
def test_values_equal_themselves_nan_and_infinity_included(values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float32)
    comparison = compare([tensor], [tensor.clone()], Tolerance(0.0, 0.0))
    assert comparison.mismatch is None
    assert comparison.max_difference == 0.0


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=8), st.data())
def test_one_value_beyond_the_tolerance_is_found_wherever_it_is(values: list[float], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(values) - 1))
    expected = torch.tensor(values, dtype=torch.float64)
    actual = expected.clone()
    actual[position] += 0.01
    comparison = compare([actual], [expected], TOLERANCE)
    assert comparison.mismatch is not None
    assert f"most at [{position}]" in comparison.mismatch
    assert comparison.max_difference == pytest.approx(0.01, rel=1e-3)


@settings(deadline=None)
@given(st.lists(finite, min_size=1, max_size=8), st.floats(-0.0009, 0.0009))
def test_values_within_the_tolerance_pass_and_their_difference_is_told(values: list[float], shift: float) -> None:
    expected = torch.tensor(values, dtype=torch.float64)
    comparison = compare([expected + shift], [expected], TOLERANCE)
    assert comparison.mismatch is None
    assert comparison.max_difference == pytest.approx(abs(shift), abs=1e-9)


@pytest.mark.parametrize(("actual", "expected"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (math.inf, -math.inf)])
def test_nan_and_infinity_equal_no_other_value(actual: float, expected: float) -> None:
    comparison = compare([torch.tensor([0.0, actual])], [torch.tensor([0.0, expected])], TOLERANCE)
    assert comparison.mismatch is not None
    assert "most at [1]" in comparison.mismatch
    assert comparison.max_difference == math.inf


def test_the_relative_tolerance_grows_with_the_expected_value() -> None:
    expected = torch.tensor([1000.0])
    assert compare([expected + 0.5], [expected], Tolerance(0.0, 1e-3)).mismatch is None
    assert compare([expected + 1.5], [expected], Tolerance(0.0, 1e-3)).mismatch is not None


def test_a_difference_names_its_place_in_the_tensor() -> None:
    expected = torch.zeros(2, 3)
    actual = expected.clone()
    actual[1, 2] = 5.0
    mismatch = compare([expected, actual], [expected, expected], TOLERANCE).mismatch
    assert mismatch == "output 1: 1 of 6 values differ too much, most at [1, 2]: 5, expected 0"


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        ([torch.zeros(2)], [torch.zeros(3)], "output 0: shape [2], expected [3]"),
        ([torch.zeros(2)], [torch.zeros(2, dtype=torch.int64)], "output 0: dtype torch.float32, expected torch.int64"),
        ([torch.zeros(2)], [torch.zeros(2), torch.zeros(1)], "1 outputs, expected 2"),
        ([3], [4], "output 0: 1 of 1 values differ too much, most at []: 3, expected 4"),
        ([torch.tensor([2**62])], [torch.tensor([2**62 + 1024])], None),
    ],
)
def test_shape_dtype_number_and_count_must_agree(actual: list, expected: list, message: str | None) -> None:
    mismatch = compare(actual, expected, TOLERANCE).mismatch
    if message is None:
        assert mismatch is not None
    else:
        assert mismatch == message


def test_no_elements_are_equal() -> None:
    assert compare([torch.zeros(0, 4)], [torch.zeros(0, 4)], TOLERANCE).mismatch is None
