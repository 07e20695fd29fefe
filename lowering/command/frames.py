"""Room for the frames of deep calls, so that none of them waits for the system to give memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# In words of 8 bytes. Chunks are as large as the next power of two: this much again is left for others.
_FRAME_WORDS = 1 << 16


def call_with_room(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), with half a MB in one piece for the frames of all that it calls.

    From Python 3.11 on, frames lie in chunks that are taken from the system when a call does not fit into the last
    one, and given back when it returns: the first has 16 KB, which is some hundred frames, as tracing has. Calls
    in a loop at the end of a chunk take ten times as long. A large frame makes a large chunk.
    """
    return function(*args)


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=_FRAME_WORDS)
