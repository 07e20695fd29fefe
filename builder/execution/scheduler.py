"""Runs the actions that ninja asks for, several at once, until ninja ends."""

from __future__ import annotations

import array
import contextlib
import os
import re
import select
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..core.action import Action
from ..core.timeline import span
from .ninja import Ninja, reap
from .processes import Interrupted
from .runner import ActionFailed, How, Machine, Outcome, run_action

_PROGRESS = re.compile(rb"^\d+/(\d+) ", re.MULTILINE)
# What is kept of ninja's output: its complaints come last.
_KEPT = 1 << 16


class Listener(Protocol):
    """Who is told how a build goes on. Called from several threads, one call at a time."""

    def running(self, action: Action) -> None:
        """Nothing that is known will do: the action is about to run."""

    def finished(self, action: Action, outcome: Outcome) -> None:
        """Its outputs are in their places."""

    def failed(self, failure: ActionFailed) -> None:
        """It failed."""

    def expected(self, total: int) -> None:
        """How many actions ninja now thinks it has to look at in all."""


@dataclass
class Tally:
    """What a build did: how many actions went which way, and which failed."""

    counts: dict[How, int] = field(default_factory=lambda: dict.fromkeys(How, 0))
    failures: list[ActionFailed] = field(default_factory=list)


class _Serial:
    """A listener and a tally, one call at a time."""

    def __init__(self, listener: Listener):
        self._lock = threading.Lock()
        self._listener = listener
        self.tally = Tally()

    def run(self, machine: Machine, action: Action) -> bool:
        """Run one action and tell of it; whether it succeeded. An exception that is a bug becomes a failure."""
        try:
            with span("action", f"{action.mnemonic} {action.owner}", output=action.outputs[0].exec_path):
                outcome = run_action(machine, action, about_to_run=self._about_to_run)
        except Interrupted:
            return False
        except ActionFailed as failure:
            self._fail(failure)
            return False
        except Exception:  # noqa: BLE001 - it must reach the user, and ninja must get an answer
            self._fail(ActionFailed(action, "met a bug in rules_executorch: please report it", traceback.format_exc()))
            return False
        with self._lock:
            self.tally.counts[outcome.how] += 1
            self._listener.finished(action, outcome)
        return True

    def _about_to_run(self, action: Action) -> None:
        with self._lock:
            self._listener.running(action)

    def _fail(self, failure: ActionFailed) -> None:
        with self._lock:
            self.tally.failures.append(failure)
            self._listener.failed(failure)

    def expect(self, total: int) -> None:
        with self._lock:
            self._listener.expected(total)


def serve(
    ninja: Ninja,
    find: Callable[[str], Action | None],
    machine: Machine,
    listener: Listener,
    *,
    done: int = 0,
) -> tuple[int, Tally, bytes]:
    """Run what ninja's edges ask for, until ninja ends.

    `find` gives the action whose definition has a digest; `done` actions that ninja need not ask for
    come on top of those that it counts.
    Returns ninja's exit status, what was done, and the end of what ninja printed. On KeyboardInterrupt
    every action is killed before the exception goes on; ninja is the caller's to stop.
    """
    serial = _Serial(listener)
    threads: list[threading.Thread] = []
    printed = b""
    try:
        while True:
            ready, _, _ = select.select([ninja.output, ninja.requests], [], [])
            if ninja.requests in ready:
                digest, reply = _receive(ninja.requests)
                thread = threading.Thread(target=_answer, args=(serial, machine, find(digest), reply), daemon=True)
                threads.append(thread)
                thread.start()
                threads = [t for t in threads if t.is_alive()]
            if ninja.output in ready:
                piece = os.read(ninja.output, 1 << 16)
                if not piece:
                    break
                printed = (printed + piece)[-_KEPT:]
                _report_progress(piece, serial, done)
        status = reap(ninja)
    except BaseException:
        machine.processes.stop()
        raise
    finally:
        for thread in threads:
            thread.join()
    return status, serial.tally, printed


def _receive(requests: socket.socket) -> tuple[str, int]:
    """One question: the digest of an action's definition, and the descriptor for the answer."""
    numbers = array.array("i")
    data, ancillary, _, _ = requests.recvmsg(4096, socket.CMSG_SPACE(numbers.itemsize))
    for _, _, payload in ancillary:
        numbers.frombytes(payload[: numbers.itemsize])
    return data.decode(), numbers[0]


def _answer(serial: _Serial, machine: Machine, action: Action | None, reply: int) -> None:
    try:
        succeeded = action is not None and serial.run(machine, action)
        with contextlib.suppress(OSError):  # ninja may have been stopped, and the edge with it
            os.write(reply, b"0" if succeeded else b"1")
    finally:
        os.close(reply)


def _report_progress(piece: bytes, serial: _Serial, done: int) -> None:
    if totals := _PROGRESS.findall(piece):
        serial.expect(int(totals[-1]) + done)
