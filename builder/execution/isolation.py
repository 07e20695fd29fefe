"""Which walls this machine can put up around actions: namespaces, else Landlock, else none but a folder of copies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum


class Mode(Enum):
    """How an action is kept to what it declares, from the strongest to the weakest (see docs/hermeticity.md)."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    FOREST = "forest"

    @property
    def description(self) -> str:
        """What a build says of it."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Mode.NAMESPACES: "actions run in namespaces of their own",
    Mode.LANDLOCK: "actions are restricted by Landlock and seccomp",
    Mode.FOREST: "actions are NOT HERMETIC: what they open is checked, and no wall keeps them in",
}


def lazily(find: Callable[[], Mode]) -> Callable[[], Mode]:
    """`find`, called at most once, when first asked; from any thread."""
    lock = threading.Lock()
    known: list[Mode] = []

    def mode() -> Mode:
        with lock:
            if not known:
                known.append(find())
            return known[0]

    return mode
