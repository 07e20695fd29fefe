"""What the user sees: results, errors, and what is going on."""

from __future__ import annotations

import os
import sys
import time

_STYLES = {"red": "\033[1;31m", "green": "\033[32m", "bold": "\033[1m", "": ""}


class Console:
    """Writes results to `out` and everything else to standard error.

    `color` is "yes", "no" or "auto" (on a terminal, unless NO_COLOR is set).
    """

    def __init__(self, out=None, *, color: str = "auto", progress: bool = True):
        self.out = out or sys.stdout
        self.err = sys.stderr
        self._color = color
        self.progress = progress
        self.began = time.time()
        self._started = time.monotonic()

    @property
    def is_terminal(self) -> bool:
        """Whether progress can be drawn and drawn over."""
        return self.progress and self.err.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, text: str = "") -> None:
        """A line of the result."""
        print(text, file=self.out, flush=True)

    def tell(self, text: str) -> None:
        """A line about what is going on, or what went wrong."""
        print(text, file=self.err, flush=True)

    def styled(self, text: str, style: str, stream=None) -> str:
        """`text` in a style, where the stream (results' by default) shows styles."""
        stream = stream or self.out
        wanted = self._color == "yes" or (self._color == "auto" and stream.isatty() and not os.environ.get("NO_COLOR"))
        return f"{_STYLES[style]}{text}\033[0m" if wanted else text

    def seconds(self) -> float:
        """The time since the command began."""
        return time.monotonic() - self._started
