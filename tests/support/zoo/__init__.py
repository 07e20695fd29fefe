"""A zoo of small models, built from torch alone, that the engine's and the backends' tests share.

Each case is a function from nothing to a Case: a module in eval mode with seeded weights, inputs
to export it with, further inputs to run it on, and dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import attention, convolution, dense, generative, recurrent, structured
from .case import Case

_FAMILIES = (dense, convolution, recurrent, attention, generative, structured)


def _collect() -> dict[str, Callable[[], Case]]:
    found: dict[str, Callable[[], Case]] = {}
    for family in _FAMILIES:
        for name, make in family.CASES.items():
            if name in found:
                raise ValueError(f"two zoo models are called {name}")
            found[name] = make
    return found


CASES: dict[str, Callable[[], Case]] = _collect()


def make(name: str) -> Case:
    """The case `name`, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CASES[name]()
