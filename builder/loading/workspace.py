"""Workspaces: the folder with a WORKSPACE file, and the repositories that it declares."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ..core.diagnostics import BuildError, Diagnostic, nearest
from ..core.target import Workspace
from .excerpt import call_diagnostic, evaluation_diagnostics
from .files import Files
from .interpreter import Call, Interpreter
from .root import WORKSPACE_FILE, find_root
from .source import Source, read_source

# The name of this distribution as a repository.
RULES_REPOSITORY = "rules_executorch"

_REPOSITORY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")


def find_workspace(start: Path) -> Workspace:
    """The workspace that `start` is in, as its WORKSPACE file declares it.

    Raises:
        BuildError: there is none, or its WORKSPACE file has mistakes.
    """
    root = find_root(str(start))
    if root is None:
        raise BuildError(
            Diagnostic(
                f"{start} is not in a workspace: neither it nor a folder above it has a file {WORKSPACE_FILE}",
                remedy=f'put a file {WORKSPACE_FILE} at the root of your sources: workspace(name = "my_project")',
            )
        )
    return read_workspace(Path(root).resolve(), Files())


def read_workspace(root: Path, files: Files) -> Workspace:
    """The workspace at `root`. Raises BuildError for mistakes in its WORKSPACE file."""
    source = read_source(WORKSPACE_FILE, files.read(str(root / WORKSPACE_FILE)))
    with Interpreter(("workspace", "local_repository")) as interpreter:
        execution = interpreter.execute_build_file(source, {}, _no_glob)
    known = ("workspace", "local_repository")
    diagnostics = evaluation_diagnostics(source, execution.problems, known, "a WORKSPACE file")
    diagnostics += [
        source.diagnostic("a WORKSPACE file loads nothing", statement.start, statement.start + 4, remedy="remove it")
        for statement in source.statements
        if statement.keyword == "load"
    ]
    name = ""
    repositories: dict[str, Path] = {}
    for call in execution.calls:
        mistake = _check_call(source, call, repositories)
        if mistake is not None:
            diagnostics.append(mistake)
        elif call.name == "workspace":
            if name:
                diagnostics.append(call_diagnostic(source, call, "the workspace is named twice"))
            name = call.kwargs["name"]
        else:
            repositories[call.kwargs["name"]] = (root / call.kwargs["path"]).resolve()
    diagnostics += [
        _no_such_folder(source, call)
        for call in execution.calls
        if (path := repositories.get(call.kwargs.get("name", ""))) is not None and not files.is_folder(str(path))
    ]
    if diagnostics:
        raise BuildError(diagnostics)
    repositories.setdefault(RULES_REPOSITORY, root if name == RULES_REPOSITORY else installed_distribution())
    return Workspace(name or re.sub(r"[^A-Za-z0-9_.+-]|^[^A-Za-z]", "_", root.name), root, repositories)


def installed_distribution() -> Path:
    """The folder of the installed rules_executorch: in a checkout its root, else in site-packages."""
    # Links stay: in an action, each source is a link to somewhere else.
    return Path(os.path.abspath(__file__)).parents[2]


def _check_call(source: Source, call: Call, repositories: Mapping[str, Path]) -> Diagnostic | None:
    """What is wrong with a call of workspace() or local_repository(), if anything is."""
    expected = ("name",) if call.name == "workspace" else ("name", "path")
    if call.name not in ("workspace", "local_repository"):
        return call_diagnostic(
            source, call, f"{call.name}() has no meaning in a WORKSPACE file", remedy="move it to a BUILD file"
        )
    if call.args:
        return call_diagnostic(source, call, f"{call.name}() takes its arguments by name")
    for argument, value in call.kwargs.items():
        if argument not in expected:
            near = nearest(argument, expected)
            return call_diagnostic(
                source,
                call,
                f"{call.name}() has no argument '{argument}'",
                argument,
                notes=(f"did you mean '{near}'?",) if near else (f"it takes {' and '.join(expected)}",),
                remedy=f"write {call.name}({', '.join(f'{e} = …' for e in expected)})",
            )
        if not isinstance(value, str) or not value:
            return call_diagnostic(source, call, f"'{argument}' must be a string that is not empty", argument)
    missing = [argument for argument in expected if argument not in call.kwargs]
    if missing:
        return call_diagnostic(source, call, f"{call.name}() needs '{missing[0]}'", remedy=f"add {missing[0]} = …")
    name = call.kwargs["name"]
    if not _REPOSITORY_NAME.fullmatch(name):
        return call_diagnostic(
            source,
            call,
            f"'{name}' cannot name a repository",
            "name",
            name,
            remedy="begin with a letter, and go on with letters, digits, '_', '-', '.' and '+'",
        )
    if name in repositories:
        return call_diagnostic(source, call, f"repository '{name}' is declared twice", "name", name)
    return None


def _no_such_folder(source: Source, call: Call) -> Diagnostic:
    return call_diagnostic(
        source,
        call,
        f"repository '{call.kwargs['name']}': there is no folder '{call.kwargs['path']}'",
        "path",
        call.kwargs["path"],
        notes=("the path is relative to the WORKSPACE file",),
        remedy="mend the path, or check the repository out there",
    )


def _no_glob(*_: object) -> list[str]:
    raise ValueError("glob() has no meaning in a WORKSPACE file")
