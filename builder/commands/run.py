"""`build run`: builds a program and runs it, over its runfiles, with the user's own terminal and environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ..core.action import RunSpec
from ..core.diagnostics import BuildError, Diagnostic
from ..execution.layout import Layout
from ..execution.runner import command_of
from ..execution.sandbox import link_files
from ..execution.toolchains import host_toolchains
from . import exit_codes
from .analysed import read_runs
from .build import build_targets, new_request, summarize, workspace_lock
from .built import results
from .console import Console
from .events import recording_events

# Where these point elsewhere, a Python program would not be the one that was built.
_PYTHON_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP")


def main(options, started_in: str) -> int:
    """The verb. Returns the program's exit code, or one of ours if it could not be built."""
    console = Console(sys.stderr, color=options.color, progress=options.progress)
    request = new_request(options)
    with recording_events(options, request) as events, workspace_lock(request, console):
        built = build_targets(request, options, console, events)
        if not built.succeeded:
            console.out.write(results(request, built))
        summarize(built, console)
        events.code = exit_codes.SUCCESS if built.succeeded else exit_codes.BUILD_FAILED
        if not built.succeeded:
            return events.code
        spec = _only_run(list(read_runs(request).items()), built.analysed, options.targets[0])
    layout = Layout(Path(request.root), built.analysed.name)
    parent = layout.state / "runs"
    parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        return _run(spec, layout, folder, options, started_in)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _only_run(runs: list, analysed, asked: str) -> RunSpec:
    if len(analysed.targets) != 1:
        message = f"`build run` runs one target, and {asked} names {len(analysed.targets)}"
        raise BuildError(Diagnostic(message, remedy="name one program"))
    if not runs:
        message = f"{analysed.targets[0][0]} is not a program"
        raise BuildError(Diagnostic(message, remedy="name a cc_binary, py_binary or a test; `build //…` builds the rest"))
    return runs[0][1]


def _run(spec: RunSpec, layout: Layout, folder: Path, options, started_in: str) -> int:
    files = {artifact.exec_path: layout.file(artifact) for artifact in spec.runfiles}
    label = options.targets[0]
    command = command_of(host_toolchains(), label, spec.toolchain, spec.also, spec.argv, spec.environment, files)
    link_files(folder, command.files, command.trees)
    environment = {name: value for name, value in os.environ.items() if name not in _PYTHON_VARIABLES}
    # As in Bazel: a program runs among its runfiles, and finds here where the user is.
    environment.update(command.environment)
    environment.update(BUILD_WORKING_DIRECTORY=started_in, BUILD_WORKSPACE_DIRECTORY=str(layout.root))
    # Ctrl-C is the program's to handle; it belongs to the same terminal.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            [*command.argv, *options.arguments],
            cwd=folder,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, handler)
    return status if status >= 0 else 128 - status
