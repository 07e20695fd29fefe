"""Reads what analysis wrote down: apart from it, since a build whose BUILD files did not change imports none of that."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

from ..core.action import RunSpec
from ..core.label import Label, parse_label
from ..execution.graph_file import StoredActions, run_from_json
from ..execution.layout import Layout
from .request import Analysed, Request
from .watch import source_status


def read_actions(request: Request) -> StoredActions:
    """The actions of a request that was analysed. A build that asks several times reads them once."""
    path = os.path.join(request.folder, "actions.json")
    return _actions(path, source_status(path))


@functools.lru_cache(maxsize=1)
def _actions(path: str, status: tuple[int, ...]) -> StoredActions:
    with open(path, "rb") as file:
        return StoredActions(json.load(file))


def read_runs(request: Request) -> dict[Label, RunSpec]:
    """How the targets of a request that was analysed are run."""
    data = json.loads(Path(request.folder, "runs.json").read_bytes())
    return {parse_label(label): run_from_json(spec) for label, spec in data.items()}


def statuses_of_sources(request: Request, analysed: Analysed) -> dict[str, tuple[int, ...]]:
    """All that analysis and actions read: the status of each file as it was before it was read."""
    now = {path: source_status(path) for path in read_actions(request).sources()}
    return {**now, **analysed.read}


def outputs_of(request: Request, analysed: Analysed) -> list[str]:
    """The paths of all outputs of a request that was analysed."""
    layout = Layout(Path(request.root), analysed.name)
    return [f"{request.root}/{layout.relative_output(path)}" for path in read_actions(request).outputs()]
