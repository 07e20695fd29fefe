"""Tells how a build goes on: lines for a log, a moving display for a terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ..core.action import Action
from ..execution.runner import ActionFailed, How, Outcome
from .console import Console


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

    def finished(self, action: Action, outcome: Outcome) -> None:
        self._running.pop(action.outputs[0].exec_path, None)
        self._done += 1
        if self._explain and outcome.how is not How.UP_TO_DATE:
            self._print(_explanation(action, outcome))
        if outcome.printed.strip():
            self._print(f"{title(action)} printed:\n{outcome.printed.rstrip()}")

    def failed(self, failure: ActionFailed) -> None:
        self._running.pop(failure.action.outputs[0].exec_path, None)
        self._done += 1
        lines = [f"{self._console.styled('error:', 'red', self._console.err)} {failure}"]
        if failure.printed.strip():
            lines.append(failure.printed.rstrip())
        if failure.reproduce:
            lines.append(f"  to run it again: {failure.reproduce}")
        self._print("\n".join(lines))

    def expected(self, total: int) -> None:
        self._total = max(self._total, total)

    def _print(self, text: str) -> None:
        self._console.tell(text)

    def _show_running(self, action: Action) -> None:
        if self._console.progress:
            self._console.tell(f"{self._position()} {title(action)}")

    def _position(self) -> str:
        # ninja tells its total when the first action ends.
        number = min(self._done + len(self._running), max(self._total, 1)) if self._total else self._done + 1
        return f"[{number}/{self._total or '?'}]"


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
        lines += [f"  {name} ({now - since:.0f} s)" for name, since in running[:8]]
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")

    def _print(self, text: str) -> None:
        from rich.text import Text

        self._live.console.print(Text.from_ansi(text), soft_wrap=True)

    def _show_running(self, action: Action) -> None:
        pass


@contextlib.contextmanager
def listening(console: Console, *, explain: bool = False) -> Iterator[Lines]:
    """The listener that suits the console, for as long as the build takes."""
    if not console.is_terminal:
        yield Lines(console, explain=explain)
        return
    import rich.console
    import rich.live

    live = rich.live.Live(console=rich.console.Console(file=console.err), transient=True, refresh_per_second=8)
    display = Display(console, live, explain=explain)
    live.get_renderable = lambda: display
    with live:
        yield display


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
