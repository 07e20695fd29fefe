"""How much is tried: a little by default, all of it with `FAULTS=full python -m pytest tests/faults`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture
def how_many() -> Callable[[int, int], int]:
    """`how_many(few, all)`: how often to try something. `FAULTS` may also be a fraction of all, e.g. 0.1."""

    def choose(few: int, all_of_them: int) -> int:
        chosen = os.environ.get("FAULTS", "")
        return all_of_them if chosen == "full" else round(all_of_them * float(chosen)) if chosen else few

    return choose
