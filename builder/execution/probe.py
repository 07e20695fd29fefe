"""Finds out which walls this machine can put up, by putting them up once around nothing."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ..core.diagnostics import BuildError, Diagnostic
from .isolation import Mode
from .processes import Processes
from .sandbox import Command, execute


def find_mode(asked: Mode | None, folder: Path) -> Mode:
    """`asked`, or the strongest mode that works here. `folder` is one that sandboxes will be in.

    Raises:
        BuildError: `asked` does not work here.
    """
    if asked is None:
        return next((mode for mode in Mode if mode is Mode.FOREST or why_not(mode, folder) is None))
    if reason := why_not(asked, folder):
        raise BuildError(
            Diagnostic(
                f"this machine cannot run actions in the sandbox '{asked.value}': {reason}",
                remedy="leave out --sandbox, so that the best one is found",
            )
        )
    return asked


def why_not(mode: Mode, folder: Path) -> str | None:
    """What goes wrong when nothing is run behind the walls of `mode`; None if they work."""
    if sys.platform != "linux":
        return None if mode is Mode.FOREST else "it needs Linux"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=folder) as place:
        try:
            completed = execute(Command(("true",), {}, {}, {}), Path(place, "sandbox"), Processes(), mode)
        except OSError as error:
            return str(error)
        return None if completed.status == 0 else f"its launcher ended with status {completed.status}"
