"""Loads and analyses a request, and writes down what building it takes."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rules_executorch.rules import RULES

from ..analysis.analyze import analyze
from ..core.label import Label
from ..core.timeline import span
from ..execution.graph_file import actions_to_json, definition_digest, run_to_json
from ..execution.layout import Layout
from ..execution.ninja_file import ninja_file
from ..execution.toolchains import host_toolchains
from ..loading.load import load
from ..loading.workspace import find_workspace
from .request import Analysed, Request, identity, statuses_read, write_analysed, write_file

# How many requests are kept: each is what one command line needs to be answered without analysis.
_KEPT_REQUESTS = 32


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Nearly all that an analysis makes is kept until its end, so that looking for garbage would cost a fifth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_no_garbage_collection()
def analyse(request: Request) -> Analysed:
    """Load and analyse `request`; write its ninja file, its actions and how its targets run.

    Raises:
        BuildError: the workspace has mistakes.
    """
    # Taken before anything is read: what changes meanwhile is then seen next time.
    request_identity = identity(request)
    workspace = find_workspace(Path(request.root))
    schemas = {name: rule.schema for name, rule in RULES.items()}
    with span("loading", "loading"):
        loaded = load(
            workspace,
            request.patterns,
            schemas,
            configs=request.configs,
            sections=request.sections,
            relative_package=request.package,
        )
    layout = Layout(Path(request.root), workspace.name)
    toolchains = host_toolchains(layout.machine)
    with span("analysis", "analysis"):
        graph = analyze(loaded, RULES, toolchains)

    def is_test(label: Label) -> bool:
        schema = getattr(loaded.target(label), "schema", None)
        return bool(schema and schema.is_test)

    targets = [
        (
            str(label),
            [
                layout.relative_output(a.exec_path)
                for a in graph.default_outputs.get(label, ())
                if a.source is None
            ],
            is_test(label),
            label in graph.runs,
        )
        for label in loaded.roots
    ]
    analysed = Analysed(workspace.name, len(graph.actions), targets, statuses_read(request_identity, loaded.inputs))
    _forget_old_requests(request)
    with span("analysis", "write down the actions"):
        definitions = [definition_digest(action, toolchains) for action in graph.actions]
        write_file(os.path.join(request.folder, "build.ninja"), ninja_file(layout, graph.actions, definitions))
        stored = json.dumps(actions_to_json(graph.actions, definitions), separators=(",", ":"))
        write_file(os.path.join(request.folder, "actions.json"), stored)
        runs = {str(label): run_to_json(spec) for label, spec in graph.runs.items()}
        write_file(os.path.join(request.folder, "runs.json"), json.dumps(runs))
        write_analysed(request, analysed, loaded.inputs, request_identity)
    return analysed


def _forget_old_requests(request: Request) -> None:
    folders = sorted(Path(request.state, "requests").glob("*"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for folder in folders[_KEPT_REQUESTS:]:
        if str(folder) != request.folder:
            shutil.rmtree(folder, ignore_errors=True)

