"""Reads what analysis wrote down: apart from it, since a build whose BUILD files did not change imports none of that."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..core.action import Action, RunSpec
from ..core.label import Label, parse_label
from ..execution.graph_file import actions_from_json, run_from_json
from .request import Request
from .watch import source_status


def read_actions(request: Request) -> Sequence[Action]:
    """The actions of a request that was analysed. A build that asks several times reads them once."""
    path = os.path.join(request.folder, "actions.json")
    return _actions(path, source_status(path))


@functools.lru_cache(maxsize=1)
def _actions(path: str, status: tuple[int, ...]) -> list[Action]:
    with open(path, "rb") as file:
        return actions_from_json(json.load(file))


def read_runs(request: Request) -> dict[Label, RunSpec]:
    """How the targets of a request that was analysed are run."""
    data = json.loads(Path(request.folder, "runs.json").read_bytes())
    return {parse_label(label): run_from_json(spec) for label, spec in data.items()}
