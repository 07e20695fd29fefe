"""`build inspect`: prints what a .pte holds, with the engine, in a process of its own."""

from __future__ import annotations

import os
import sys


def main(options, started_in: str) -> int:
    """The verb: becomes the engine's process."""
    command = [sys.executable, "-m", "rules_executorch.lowering", "inspect", *options.arguments_of_inspect]
    sys.stdout.flush()
    os.execv(sys.executable, command)
