"""Finds the workspace that a folder is in. Imports nothing more: a build in which nothing changed begins here."""

from __future__ import annotations

import os

WORKSPACE_FILE = "WORKSPACE"


def find_root(start: str) -> str | None:
    """The nearest folder at or above `start` that has a WORKSPACE file; None where there is none."""
    folder = os.path.abspath(start)
    while not os.path.isfile(os.path.join(folder, WORKSPACE_FILE)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder
