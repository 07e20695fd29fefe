"""How many programs the suite compares with eager on the official runtime, as its tables say."""

from __future__ import annotations

from support import zoo
from support.operator_cases import KERNELS


def test_calls_of_kernels_and_models_are_as_many_as_promised() -> None:
    calls = sum(map(len, KERNELS.values()))
    assert calls >= 800 and len(zoo.CASES) >= 90  # decompositions, layouts, programs and random ones come on top
