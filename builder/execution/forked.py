"""The process of one action, forked from a zygote, and whatever of that can be done before there is an action.

Forking a process of some hundred MB and making its file system take longer than many actions. So in namespaces,
a zygote has one such process waiting, a spare, for the next action with the same toolchain.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import tempfile
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from types import ModuleType

from . import fresh_process, linux, namespaces, preloading, sandbox_main

# A machine's memory is an action's up to this share, so that a runaway model is not the end of everything else.
# Other actions have no limit: sanitizers reserve thousands of times the memory that there is, and use little of it.
_MEMORY_SHARE = 0.9


# How long one waits until it is taken for idle.
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True)
class Preloaded:
    """What layers' `steps` have imported: `modules`, from copies in `folders`. `files` are the toolchain's."""

    steps: Sequence[str]
    modules: Sequence[ModuleType]
    folders: Sequence[str]
    files: Container[str]


@dataclass(frozen=True)
class Forked:
    """A process that runs an action. When that has ended, its wait status can be read at `report`, as a decimal number.

    The process itself ends a little later, which takes as long as many actions do. One that is killed reports nothing.
    """

    process: int
    report: int


def start(preloaded: Preloaded, spec: dict, stdout: int, stderr: int) -> Forked:
    """Fork a process that runs the action of a specification."""

    def run(report: int) -> int:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        _close_all_but(report)
        return sandbox_main.run(spec, body)

    def body() -> None:
        preloading.move_modules(preloaded.modules, preloaded.folders, os.getcwd())
        fresh_process.become(spec["argv"], spec["environment"])

    return _fork(run)


@dataclass(frozen=True)
class Spare:
    """A process that waits for an action at the other end of `channel`, with what was `seen` when it was made."""

    forked: Forked
    channel: socket.socket
    seen: object

    def give(self, spec: dict, request: int, stdout: int, stderr: int) -> bool:
        """Have it run the action of the file `request`; whether it can. Then it is as any action's process."""
        fits = spec["mode"] == "namespaces" and self.seen == _seen(spec)
        with self.channel:
            if fits and not self._has_ended():
                with contextlib.suppress(OSError):
                    socket.send_fds(self.channel, [b"!"], [request, stdout, stderr])
                    return True
        return False

    def _has_ended(self) -> bool:
        reported = select.select([self.forked.report], [], [], 0)[0]
        return bool(reported or os.waitpid(self.forked.process, os.WNOHANG)[0])

    def end(self) -> None:
        """End one that cannot be used."""
        self.close()
        with contextlib.suppress(ChildProcessError):  # `give` may have found it dead
            if not os.waitpid(self.forked.process, os.WNOHANG)[0]:
                os.kill(self.forked.process, signal.SIGKILL)
                os.waitpid(self.forked.process, 0)

    def close(self) -> None:
        """Have nothing to do with it any more."""
        self.channel.close()
        os.close(self.forked.report)


def prepare(preloaded: Preloaded, spec: dict) -> Spare | None:
    """Fork a process for an action that sees of the toolchain what that of `spec` sees; None in other modes."""
    if spec["mode"] != "namespaces":
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    seen = _seen(spec)

    def run(report: int) -> int:
        _close_all_but(report, theirs.fileno())
        place = tempfile.gettempdir()
        return sandbox_main.run_in_namespaces(place, spec["visible"], spec["hidden"], lambda: _wait(preloaded, theirs))

    with theirs:
        return Spare(_fork(run), ours, seen)


def _wait(preloaded: Preloaded, channel: socket.socket) -> sandbox_main.Task:
    """Wait for an action; the process ends if there will be none.

    With time to spare, it takes the layers' steps once more, so that the action finds its memory as if it had run before.
    """
    preloading.move_modules(preloaded.modules, preloaded.folders, namespaces.ROOT)
    if not select.select([channel], [], [], _PATIENCE_SECONDS)[0]:
        preloading.repeat_steps(preloaded.steps, preloaded.files)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 3)
    if len(descriptors) != 3:
        os._exit(0)
    request, stdout, stderr = descriptors
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.lseek(request, 0, os.SEEK_SET)
    with open(request, encoding="utf-8", errors="surrogateescape", closefd=False) as file:
        spec = json.load(file)["spec"]
    return spec, lambda: fresh_process.become(spec["argv"], spec["environment"])


def _seen(spec: dict) -> object:
    """What a file system that was made earlier would have missed: mounts, and files that others took the place of."""
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = file.read()
    paths = (*namespaces.SYSTEM, *namespaces.SHOWN, *spec["visible"], *spec["hidden"])
    return mounts, [(path, _identity(path)) for path in paths]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close_all_but(*descriptors: int) -> None:
    """Close what is the zygote's, save standard files and `descriptors`: forked processes have no business with it."""
    ends = [2, *sorted(descriptors), resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
    for before, after in zip(ends, ends[1:]):
        os.closerange(before + 1, after)


def _fork(run: Callable[[int], int]) -> Forked:
    """Fork a process that reports what `run` returns, and ends with its parent. `run` is given where it will report."""
    parent = os.getpid()
    reader, writer = os.pipe()
    if process := os.fork():
        os.close(writer)
        return Forked(process, reader)
    try:
        os.setsid()
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            limit = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            os.write(writer, b"%d" % run(writer))
    finally:
        os._exit(sandbox_main.CANNOT_RUN)
