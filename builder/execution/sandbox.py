"""How an action is run: a fresh folder with its declared inputs, walls around it, and a fixed environment.

`execute` is the only place that knows. The walls themselves are put up by a process of their own
(sandbox_main.py), which reads what to do in a file (`specification`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import namespaces, sandbox_main
from .distributions import site_folders
from .isolation import Mode
from .leftovers import COPIED_AT
from .processes import Processes
from .workers import Layer, NoWorker, Workers

# In bytes: copying more takes longer than it is worth.
_LARGEST_COPY = 1 << 20

# Run in the sandbox's folder, so that what the action can see of this process holds no path of its own.
_SPECIFICATION = "sandbox.json"
_LAUNCHER = (sys.executable, "-I", "-S", sandbox_main.__file__, _SPECIFICATION)

FIXED_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C.UTF-8",
    "LOGNAME": "build",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "SOURCE_DATE_EPOCH": str(COPIED_AT),
    "TZ": "UTC",
    "USER": "build",
}


@dataclass(frozen=True)
class Command:
    """What to run: `argv` in full, over `files` (by exec_path) and `trees` (by name, at `.toolchain/`).

    `visible` are files and folders of this machine that its toolchains consist of, besides those of the
    system; they are seen where they are. `outputs` are exec_paths whose folders must be there.
    `timeout_seconds` is None for no limit. With `log`, all that it prints goes to the file at that
    exec_path, in the order in which it comes.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, Path]
    trees: Mapping[str, Path]
    visible: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    log: str | None = None
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Completed:
    """A command that ran in `root`: its exit status (minus a signal), and the files with what it printed."""

    status: int
    root: Path
    printed: tuple[Path, ...]


def execute(
    command: Command, folder: Path, processes: Processes, mode: Mode, workers: Workers | None = None
) -> Completed:
    """Run `command` behind the walls of `mode` in the new folder `folder`, which is the caller's to delete.

    The execution root is `folder`/root; home and temporary files are private, beside it. One of the
    `workers` runs it, if it can and lives to the end; else a new process does.

    Raises:
        Interrupted, subprocess.TimeoutExpired: as Processes.run.
        OSError: the walls cannot be put up, or the command cannot be started.
    """
    if workers and command.layers:
        try:
            status = _run(command, folder, processes, mode, workers)
        except NoWorker:
            shutil.rmtree(folder)
            status = _run(command, folder, processes, mode)
    else:
        status = _run(command, folder, processes, mode)
    if status == sandbox_main.CANNOT_RUN and (folder / "failed").exists():
        raise OSError((folder / "failed").read_text(errors="replace"))
    return Completed(status, folder / "root", () if command.log else printed_files(command, folder))


def _run(command: Command, folder: Path, processes: Processes, mode: Mode, workers: Workers | None = None) -> int:
    """The command's exit status, in a new process or in one of the `workers`. Raises NoWorker, and as execute."""
    lay_out(command, folder, mode)
    spec = specification(command, folder, mode)
    with open(folder / _SPECIFICATION, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(spec, file)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open(path, "wb")) for path in printed_files(command, folder)]
        where = {"stdout": streams[0], "stderr": streams[-1], "timeout_seconds": command.timeout_seconds}
        if workers:
            return workers.run(spec, command.layers, list(command.files), processes=processes, **where)
        return processes.run((*_LAUNCHER, str(os.getpid())), folder=folder, environment={}, **where)


def specification(command: Command, folder: Path, mode: Mode) -> dict:
    """What sandbox_main.py is told, as plain data."""
    return {
        "mode": mode.value,
        "folder": str(folder),
        "visible": command.visible,
        "hidden": site_folders(),
        "binds": [(str(source), path) for path, source in _links(command.files, command.trees).items()],
        "argv": command.argv,
        "environment": environment_in(command, folder, mode),
    }


def printed_files(command: Command, folder: Path) -> tuple[Path, ...]:
    """Where standard output and error go: two files, or the log."""
    return (folder / "root" / command.log,) if command.log else (folder / "stdout", folder / "stderr")


def lay_out(command: Command, folder: Path, mode: Mode) -> Path:
    """Make `folder` with private home and temporary folders, and the execution root, which is returned."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    root = folder / "root"
    if mode is Mode.NAMESPACES:
        _make_places(root, command)
    else:
        _copy_files(root, command)
    return root


def link_files(
    root: Path, files: Mapping[str, Path], trees: Mapping[str, Path], also_folders_of: Iterable[str] = ()
) -> None:
    """Make folder `root` with a link for each file at its exec_path, and for each tree at `.toolchain/`."""
    links = _links(files, trees)
    _make_folders(root, (*links, *also_folders_of))
    for path, target in links.items():
        (root / path).symlink_to(target)


def _make_places(root: Path, command: Command) -> None:
    """Make folder `root` with an empty file or folder where each input is going to be mounted.

    The files are links to one: a file system is slow at finding numbers for hundreds of new ones when as many,
    those of the action before, were just removed.
    """
    _make_folders(root, (*command.files, *command.outputs, *(f".toolchain/{name}/" for name in command.trees)))
    empty = root.with_name("empty")
    empty.touch()
    for path in command.files:
        try:
            os.link(empty, root / path)
        except OSError:  # File systems limit how many links a file has.
            (root / path).touch()


def _copy_files(root: Path, command: Command) -> None:
    """Make folder `root` with a copy of each input, so that what is found beside it are inputs again.

    Files too large for that, and the toolchains' trees, are links.
    """
    large = {path: file for path, file in command.files.items() if file.stat().st_size > _LARGEST_COPY}
    link_files(root, large, command.trees, also_folders_of=(*command.files, *command.outputs))
    for path, file in command.files.items():
        if path not in large:
            shutil.copyfile(file, root / path)
            os.chmod(root / path, 0o555 if os.access(file, os.X_OK) else 0o444)
            os.utime(root / path, (COPIED_AT, COPIED_AT))


def _make_folders(root: Path, paths: Iterable[str]) -> None:
    """Make `root` and, in it, the folder of every path."""
    root.mkdir(parents=True, exist_ok=True)
    for parent in {path.rpartition("/")[0] for path in paths}:
        (root / parent).mkdir(parents=True, exist_ok=True)


def _links(files: Mapping[str, Path], trees: Mapping[str, Path]) -> dict[str, Path]:
    return {**files, **{f".toolchain/{name}": tree for name, tree in trees.items()}}


def environment_in(command: Command, folder: Path, mode: Mode) -> dict[str, str]:
    """All variables that the process has."""
    private = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    if mode is Mode.NAMESPACES:
        private = {"HOME": namespaces.HOME, "TMPDIR": namespaces.TEMPORARY}
    return {**FIXED_ENVIRONMENT, **private, **command.environment}


def reproduction(folder: Path) -> str:
    """A line for a shell that runs the command again in `folder`, which is left as the failure left it."""
    return f"cd {shlex.quote(str(folder))} && {shlex.join(_LAUNCHER)}"
