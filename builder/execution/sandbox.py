"""How an action is run: a fresh folder with its declared inputs, and a fixed environment.

`execute` is the only place that knows. It gives a folder of links; stronger walls (namespaces) and
warm workers have their place behind the same function.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .processes import Processes

# 1980-01-01, the earliest time that a zip file can hold.
_SOURCE_DATE_EPOCH = "315532800"

FIXED_ENVIRONMENT: Mapping[str, str] = {
    "LC_ALL": "C.UTF-8",
    "LOGNAME": "build",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "SOURCE_DATE_EPOCH": _SOURCE_DATE_EPOCH,
    "TZ": "UTC",
    "USER": "build",
}


@dataclass(frozen=True)
class Command:
    """What to run: `argv` in full, over `files` (by exec_path) and `trees` (by name, at `.toolchain/`).

    `outputs` are exec_paths whose folders must be there. `timeout_seconds` is None for no limit. With
    `log`, all that it prints goes to the file at that exec_path, in the order in which it comes.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, Path]
    trees: Mapping[str, Path]
    outputs: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    log: str | None = None


@dataclass(frozen=True)
class Completed:
    """A command that ran in `root`: its exit status (minus a signal), and the files with what it printed."""

    status: int
    root: Path
    printed: tuple[Path, ...]


def execute(command: Command, folder: Path, processes: Processes) -> Completed:
    """Run `command` in the new folder `folder`, which is the caller's to delete.

    The execution root is `folder`/root; home and temporary files are private, beside it.

    Raises:
        Interrupted, subprocess.TimeoutExpired, OSError: as Processes.run.
    """
    root = lay_out(command, folder)
    printed = printed_files(command, folder)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open(path, "wb")) for path in printed]
        status = processes.run(
            command.argv,
            folder=root,
            environment=environment_in(command, folder),
            stdout=streams[0],
            stderr=streams[-1],
            timeout_seconds=command.timeout_seconds,
        )
    return Completed(status, root, () if command.log else printed)


def printed_files(command: Command, folder: Path) -> tuple[Path, ...]:
    """Where standard output and error go: two files, or the log."""
    return (folder / "root" / command.log,) if command.log else (folder / "stdout", folder / "stderr")


def lay_out(command: Command, folder: Path) -> Path:
    """Make `folder` with private home and temporary folders, and the execution root, which is returned."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True)
    root = folder / "root"
    link_files(root, command.files, command.trees, also_folders_of=command.outputs)
    return root


def link_files(
    root: Path, files: Mapping[str, Path], trees: Mapping[str, Path], also_folders_of: Iterable[str] = ()
) -> None:
    """Make folder `root` with a link for each file at its exec_path, and for each tree at `.toolchain/`."""
    links = {**files, **{f".toolchain/{name}": tree for name, tree in trees.items()}}
    root.mkdir(parents=True, exist_ok=True)
    for parent in {path.rpartition("/")[0] for path in (*links, *also_folders_of)}:
        (root / parent).mkdir(parents=True, exist_ok=True)
    for path, target in links.items():
        (root / path).symlink_to(target)


def environment_in(command: Command, folder: Path) -> dict[str, str]:
    """All variables that the process has."""
    private = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    return {**FIXED_ENVIRONMENT, **private, **command.environment}


def reproduction(command: Command, folder: Path) -> str:
    """A line for a shell that runs the command again in `folder`, which is left as the failure left it."""
    variables = [f"{name}={value}" for name, value in sorted(environment_in(command, folder).items())]
    words = ["env", "-i", *variables, *command.argv]
    return f"cd {shlex.quote(str(folder / 'root'))} && {shlex.join(words)}"
