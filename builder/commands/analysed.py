"""Reads what analysis wrote down: apart from it, since a build whose BUILD files did not change imports none of that."""

from __future__ import annotations

import json
from pathlib import Path

from ..core.action import Action, RunSpec
from ..core.label import Label, parse_label
from ..execution.graph_file import actions_from_json, run_from_json
from .request import Request


def read_actions(request: Request) -> list[Action]:
    """The actions of a request that was analysed."""
    return actions_from_json(json.loads(Path(request.folder, "actions.json").read_bytes()))


def read_runs(request: Request) -> dict[Label, RunSpec]:
    """How the targets of a request that was analysed are run."""
    data = json.loads(Path(request.folder, "runs.json").read_bytes())
    return {parse_label(label): run_from_json(spec) for label, spec in data.items()}
