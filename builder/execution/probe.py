"""Finds out which walls this machine can put up, by putting them up once around nothing."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from ..core.diagnostics import BuildError, Diagnostic
from . import linux, sandbox_main
from . import namespaces as namespaces_of_actions
from .isolation import Mode
from .processes import Processes
from .remembered import remembered
from .sandbox import Command, execute

_SETTINGS = (
    "kernel/random/boot_id",
    "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/unprivileged_userns_clone",
    "user/max_mnt_namespaces",
    "user/max_user_namespaces",
)


def find_mode(asked: Mode | None, folder: Path, memory: Path | None = None) -> Mode:
    """`asked`, or the strongest mode that works here. `folder` is one that sandboxes will be in.

    That namespaces work is remembered in the folder `memory`, until the machine starts anew or its rules change.

    Raises:
        BuildError: `asked` does not work here.
    """
    if asked in (None, Mode.NAMESPACES):
        file = memory / "namespaces.json" if memory else None
        if remembered(file, [str(folder), _rules()], lambda: why_not(Mode.NAMESPACES, folder) is None or None):
            return Mode.NAMESPACES
    if asked is None:
        return Mode.FOREST if why_not(Mode.LANDLOCK, folder) else Mode.LANDLOCK
    if reason := why_not(asked, folder):
        raise BuildError(
            Diagnostic(
                f"this machine cannot run actions in the sandbox '{asked.value}': {reason}",
                remedy="leave out --sandbox, so that the best one is found",
            )
        )
    return asked


def _rules() -> list[object]:
    """What decides whether a process may have namespaces: the running system, its settings, and who asks from where."""
    settings = []
    for name in _SETTINGS:
        try:
            settings.append(Path("/proc/sys", name).read_text())
        except OSError:
            settings.append("")
    if sys.platform != "linux":
        return settings
    allowed = re.findall(r"^(?:Uid|CapEff|NoNewPrivs|Seccomp\w*):.*", Path("/proc/self/status").read_text(), re.MULTILINE)
    namespaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "user")]
    code = [os.stat(module.__file__).st_mtime_ns for module in (linux, namespaces_of_actions, sandbox_main)]
    return [*settings, *allowed, *namespaces, *code]


def why_not(mode: Mode, folder: Path) -> str | None:
    """What goes wrong when nothing is run behind the walls of `mode`; None if they work."""
    if sys.platform != "linux":
        return None if mode is Mode.FOREST else "it needs Linux"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="probe-", dir=folder) as place:
        try:
            completed = execute(Command(("true",), {}, {}, {}), Path(place, "sandbox"), Processes(), mode)
        except OSError as error:
            return str(error)
        return None if completed.status == 0 else f"its launcher ended with status {completed.status}"
