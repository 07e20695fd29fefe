"""What took how long: spans of time, recorded only where somebody asks for them.

Recording is for the process, as logging is, so that what takes time need not be told who wants to know.
On the path of a build in which nothing changed, so it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import time
from _thread import get_ident
from collections import namedtuple
from collections.abc import Iterator

# Times are in nanoseconds of time.monotonic_ns; `thread` numbers the thread; `arguments` are further facts.
Span = namedtuple("Span", "category name began ended thread arguments")

_recorded: list[Span] | None = None


def record() -> None:
    """Begin to record, with nothing recorded yet."""
    global _recorded
    _recorded = []


def recorded() -> list[Span]:
    """What was recorded so far; nothing where record() was not called. Spans inside others come before these."""
    return list(_recorded or ())


@contextlib.contextmanager
def span(category: str, name: str, **arguments: object) -> Iterator[None]:
    """What happens inside takes the time that is recorded, also where it ends in an exception."""
    if _recorded is None:
        yield
        return
    began = time.monotonic_ns()
    try:
        yield
    finally:
        _recorded.append(Span(category, name, began, time.monotonic_ns(), get_ident(), arguments))
