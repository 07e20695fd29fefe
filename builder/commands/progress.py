"""Tells how a build or a test goes on: lines for a log, a moving display for a terminal."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from ..core.action import Action
from ..execution.runner import ActionFailed, How, Outcome
from ..execution.scheduler import Listener
from .console import Console

# A log is told this often, in seconds, what has been running for so long.
_PATIENCE = 60

# More than these are counted, not listed, where it is shown what runs.
_SHOWN = 8


class Lines:
    """A listener that prints a line for each action that runs, and what actions print."""

    def __init__(self, console: Console, *, explain: bool = False):
        self._console = console
        self._explain = explain
        self._total = 0
        self._done = 0
        # The actions that are running, with the times at which they began.
        self._running: dict[str, tuple[str, float]] = {}

    def running(self, action: Action) -> None:
        self._running[action.outputs[0].exec_path] = (title(action), time.monotonic())
        self._show_running(action)

    def ended(self, action: Action) -> None:
        """It runs no more, and somebody else tells how it ended."""
        self._running.pop(action.outputs[0].exec_path, None)
        self._done += 1

    def finished(self, action: Action, outcome: Outcome) -> None:
        self.ended(action)
        if self._explain and outcome.how is not How.UP_TO_DATE:
            self._print(_explanation(action, outcome))
        if outcome.printed.strip():
            self._print(f"{title(action)} printed:\n{outcome.printed.rstrip()}")
        if outcome.reproduce:
            self._print(f"{title(action)} ran in a sandbox that is kept\n  to run it again: {outcome.reproduce}")

    def failed(self, failure: ActionFailed) -> None:
        self.ended(failure.action)
        lines = [str(failure)]
        if failure.printed.strip():
            lines.append(failure.printed.rstrip())
        if failure.reproduce:
            lines.append(f"  to run it again: {failure.reproduce}")
        self.complain("\n".join(lines))

    def complain(self, text: str) -> None:
        """An error, in one line or more."""
        self._print(f"{self._console.styled('error:', 'red', self._console.err)} {text}")

    def expected(self, total: int) -> None:
        self._total = max(self._total, total)

    def say(self, text: str) -> None:
        """A line of the result."""
        self._console.say(text)

    def still_running(self, seconds: float) -> str:
        """What has been running for more than `seconds`, the longest first, or nothing."""
        now = time.monotonic()
        running = sorted(self._running.values(), key=lambda entry: entry[1])
        old = [f"{name} ({now - since:.0f} s)" for name, since in running if now - since > seconds]
        more = [f"{len(old) - _SHOWN} more"] if len(old) > _SHOWN else []
        return ", ".join(old[:_SHOWN] + more)

    def _print(self, text: str) -> None:
        self._console.tell(text)

    def _show_running(self, action: Action) -> None:
        if self._console.progress:
            self._console.tell(f"{self._position()} {title(action)}")

    def _position(self) -> str:
        # ninja tells its total when the first action ends.
        number = min(self._done + len(self._running), max(self._total, 1)) if self._total else self._done + 1
        return f"[{number}/{self._total or '?'}]"


class Listeners:
    """Several listeners as one."""

    def __init__(self, *listeners: Listener):
        self._listeners = listeners

    def running(self, action: Action) -> None:
        for listener in self._listeners:
            listener.running(action)

    def finished(self, action: Action, outcome: Outcome) -> None:
        for listener in self._listeners:
            listener.finished(action, outcome)

    def failed(self, failure: ActionFailed) -> None:
        for listener in self._listeners:
            listener.failed(failure)

    def expected(self, total: int) -> None:
        for listener in self._listeners:
            listener.expected(total)


class Display(Lines):
    """The same on a terminal: what runs now stands below, with how long it has been running."""

    def __init__(self, console: Console, live, *, explain: bool = False):
        super().__init__(console, explain=explain)
        self._live = live

    def __rich__(self):
        from rich.text import Text

        now = time.monotonic()
        running = sorted(self._running.values(), key=lambda entry: entry[1])
        lines = [f"[{self._done}/{max(self._total, self._done)}] {len(running)} running"]
        lines += [f"  {name} ({now - since:.0f} s)" for name, since in running[:_SHOWN]]
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")

    def say(self, text: str) -> None:
        if self._console.out.isatty():
            self._print(text)
        else:
            self._console.say(text)

    def _print(self, text: str) -> None:
        from rich.text import Text

        self._live.console.print(Text.from_ansi(text), soft_wrap=True)

    def _show_running(self, action: Action) -> None:
        pass


@contextlib.contextmanager
def listening(console: Console, *, explain: bool = False) -> Iterator[Lines]:
    """The listener that suits the console, for as long as the build takes."""
    if not console.is_terminal:
        lines = Lines(console, explain=explain)
        with _told_what_takes_long(lines, console) if console.progress else contextlib.nullcontext():
            yield lines
        return
    import rich.console
    import rich.live

    live = rich.live.Live(console=rich.console.Console(file=console.err), transient=True, refresh_per_second=8)
    display = Display(console, live, explain=explain)
    live.get_renderable = lambda: display
    with live:
        yield display


@contextlib.contextmanager
def _told_what_takes_long(lines: Lines, console: Console) -> Iterator[None]:
    """A log with no line for a long time would look like a build that hangs."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_PATIENCE):
            if running := lines.still_running(_PATIENCE):
                console.tell(f"still running: {running}")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def title(action: Action) -> str:
    """An action in a few words."""
    return f"{action.mnemonic} {action.owner}" if action.owner else f"{action.mnemonic} {action.outputs[0].exec_path}"


def _explanation(action: Action, outcome: Outcome) -> str:
    how = "ran" if outcome.how is How.RAN else "was taken from the cache"
    if outcome.changes is None:
        reasons = "no earlier run of it is known here"
    elif not outcome.changes:
        reasons = "an output was missing or had been changed"
    else:
        reasons = "; ".join(str(change) for change in outcome.changes)
    return f"{title(action)} {how}: {reasons}"
