"""Changed files of every kind that the engine reads: one line, never a traceback, a hang or a crash.

`python -m support.fuzz KIND 10000` in tests/ is the same at full size.
"""

from __future__ import annotations

import pytest
from support.fuzz import KINDS, fuzz


@pytest.mark.parametrize("kind", KINDS)
def test_changed_files_are_read_or_refused_in_one_line(kind: str) -> None:
    outcome = fuzz(kind, 120, seed=3)
    assert outcome.files == 120 and outcome.failures == {}
    assert outcome.refused > 20 and outcome.slowest < 20
