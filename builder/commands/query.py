"""`build query`: answers questions about targets."""

from __future__ import annotations

import os
from pathlib import Path

from rules_executorch.rules import RULES

from ..loading.workspace import find_workspace
from . import exit_codes
from .request import make_request, require_root


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    from ..query.output import render
    from ..query.query import query

    root = require_root(os.getcwd())
    package = make_request(root, os.getcwd(), [], []).package
    schemas = {name: rule.schema for name, rule in RULES.items()}
    answer = query(
        find_workspace(Path(root)),
        options.expression,
        schemas,
        configs=options.config,
        sections=options.sections,
        relative_package=package,
    )
    print(render(answer, options.output), end="")
    return exit_codes.SUCCESS
