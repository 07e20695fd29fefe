"""`build clean`: removes what builds made in this workspace."""

from __future__ import annotations

import os
import shutil

from . import exit_codes
from .build import workspace_lock
from .console import Console
from .request import make_request, require_root


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    root = require_root(os.getcwd())
    request = make_request(root, root, [], [])
    if os.path.isdir(os.path.join(root, "build-out")):
        with workspace_lock(request, Console()):
            shutil.rmtree(os.path.join(root, "build-out"))
    return exit_codes.SUCCESS
