"""Python processes that tests start: they import the very package that the test imports."""

from __future__ import annotations

import os
from pathlib import Path

import rules_executorch.lowering

_PACKAGE = Path(rules_executorch.lowering.__file__).parents[1]
_TESTS = Path(__file__).parents[1]


def python_path(*folders: Path) -> str:
    """PYTHONPATH for a child: `folders`, this project as the test sees it, and the helpers of the tests.

    In a checkout the package is installed; where a test runs as an action, it is among the inputs.
    """
    ours = [_PACKAGE.parent] if _PACKAGE.name == "rules_executorch" else []
    return os.pathsep.join(map(str, (*folders, *ours, _TESTS)))
