"""The processes that a build has started, so that it can end all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO


class Interrupted(Exception):
    """The build was told to stop (Ctrl-C, or the first failure without --keep_going)."""


class Processes:
    """Runs commands, each in a process group of its own; `stop` kills all groups, for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._others: set[Callable[[], None]] = set()
        self._stopped = False

    def run(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        timeout_seconds: float | None = None,
    ) -> int:
        """Run a command to its end, without standard input; whatever it started in the background ends with it.

        Returns its exit status, or minus the signal that ended it.

        Raises:
            Interrupted: stop() was called.
            subprocess.TimeoutExpired: it took longer than `timeout_seconds`, and was killed.
            OSError: it could not be started.
        """
        with self._lock:
            if self._stopped:
                raise Interrupted
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                umask=0o022,
            )
            self._running.add(process)
        try:
            status = process.wait(timeout_seconds)
        finally:
            _kill_group(process)
            process.wait()
            with self._lock:
                self._running.discard(process)
        if self._stopped:
            raise Interrupted
        return status

    @contextlib.contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """While something runs in processes that are another's: stop() calls `end`, which ends it.

        Raises:
            Interrupted: stop() was called.
        """
        with self._lock:
            if self._stopped:
                raise Interrupted
            self._others.add(end)
        try:
            yield
        finally:
            with self._lock:
                self._others.discard(end)
            if self._stopped:
                raise Interrupted

    def stop(self) -> None:
        """Kill what runs, and start nothing any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill_group(process)
            for end in self._others:
                end()


def _kill_group(process: subprocess.Popen) -> None:
    # The group's number is that of its first process, and is not given away while a member lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
