"""`--profile=FILE`: where the time of a command went, as a trace for chrome://tracing, Perfetto and the like."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence

from ..core import timeline
from ..core.timeline import Span
from .words import CommandLineError


@contextlib.contextmanager
def profiling(path: str | None, name: str) -> Iterator[None]:
    """Record what happens inside, as one span `name` and those in it, and write it to `path`, if that is given.

    Raises:
        CommandLineError: the file cannot be written.
    """
    if path is None:
        yield
        return
    path = os.path.abspath(path)
    try:
        file = open(path, "w", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise CommandLineError(f"error: --profile={path}: {error.strerror}") from None
    timeline.record()
    with file:
        try:
            with timeline.span("command", name):
                yield
        finally:
            json.dump(chrome_trace(timeline.recorded()), file)


def chrome_trace(spans: Sequence[Span]) -> dict:
    """The spans as an object of the Trace Event Format. Times are in microseconds since the first one."""
    began = min((span.began for span in spans), default=0)
    rows = _rows(spans)
    events: list[dict] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "build"}},
        *(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": f"action {row}" if row else "main"}}
            for row in sorted(set(rows.values()) | {0})
        ),
    ]
    for span in sorted(spans, key=lambda span: (span.began, -span.ended)):
        events.append(
            {
                "ph": "X",
                "cat": span.category,
                "name": span.name,
                "pid": 1,
                "tid": rows[id(span)],
                "ts": (span.began - began) / 1000,
                "dur": (span.ended - span.began) / 1000,
                "args": span.arguments,
            }
        )
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _rows(spans: Sequence[Span]) -> dict[int, int]:
    """In which row each span (by id) is shown: 0 for the main thread's, the lowest free one for an action's.

    Each action has a thread of its own, and threads' numbers are used again, so that a row per thread
    would be either too many rows or a muddle. What happens inside of an action is in its row.
    """
    main = next((span.thread for span in spans if span.category == "command"), None)
    rows: dict[int, int] = {}
    busy: list[tuple[int, int]] = []  # for each row after the first: the thread that has it, and until when
    for span in sorted(spans, key=lambda span: (span.began, -span.ended)):
        if span.thread == main:
            rows[id(span)] = 0
            continue
        inside = [row for row, (thread, until) in enumerate(busy) if thread == span.thread and span.ended <= until]
        free = [row for row, (_, until) in enumerate(busy) if until <= span.began]
        if inside:
            row = inside[0]
        else:
            row = free[0] if free else len(busy)
            busy[row : row + 1] = [(span.thread, span.ended)]
        rows[id(span)] = row + 1
    return rows
