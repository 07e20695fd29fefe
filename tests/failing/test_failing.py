"""Every mistake that a user can make has a broken workspace here, and the message that it must get.

Each folder is a workspace, with `command.txt` (what is typed at its root) and `expected.txt` (what is
then printed on standard error, and the exit code). After a change of messages, write them anew with

    UPDATE_EXPECTED=1 .venv/bin/python -m pytest tests/failing

and read the difference with the eyes of somebody who made that mistake.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from support.build_command import build

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/command.txt"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_gets_its_message(case: Path, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(case, root, ignore=shutil.ignore_patterns("command.txt", "expected.txt"))
    command, *arguments = shlex.split((case / "command.txt").read_text())
    assert command == "build"
    result = build(root, *arguments)
    told = result.stderr.replace(str(root), "<workspace>")
    told += f"exit code {result.returncode}\n"
    if os.environ.get("UPDATE_EXPECTED"):
        (case / "expected.txt").write_text(told)
    assert told == (case / "expected.txt").read_text()
    assert result.returncode not in (0, 37) and "Traceback" not in told


def test_there_are_cases() -> None:
    assert len(CASES) >= 25
