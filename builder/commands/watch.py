"""Sees what ninja cannot: ninja compares times, and files change in other ways.

After a build the status of all its sources and outputs is kept. Where one differs at the next build
(replaced by an older file, edited within a tick of the clock, an output tampered with), the stamps
of the actions that it belongs to are removed, and ninja asks for these actions.
"""

from __future__ import annotations

import json
import os

from .request import write_file


def path(folder: str) -> str:
    """Where the statuses of the request in `folder` are kept."""
    return os.path.join(folder, "watch.json")


def changed_files(folder: str) -> tuple[list[str], list[list] | None]:
    """The files that are not as the last build of the request in `folder` left them, and the sources as they are now.

    Where there was no such build: nothing changed, and None.
    """
    try:
        with open(path(folder), "rb") as file:
            kept = json.loads(file.read())
        sources = [[name, source_status(name)] for name, _ in kept["sources"]]
        changed = [new[0] for old, new in zip(kept["sources"], sources) if old != new]
        changed += [name for name, status in kept["outputs"] if output_status(name) != status]
        return changed, sources
    except (OSError, ValueError, KeyError, TypeError):
        return [], None


def keep(folder: str, sources: list[list], outputs: list[str]) -> None:
    """Keep statuses: of `sources` as they were taken before the build, of `outputs` as they are now."""
    now = [[name, output_status(name)] for name in outputs]
    write_file(path(folder), json.dumps({"sources": sources, "outputs": now}))


def source_status(name: str) -> list[int]:
    """All that stat tells of a change; nothing for a file that is not there."""
    try:
        found = os.stat(name)
    except OSError:
        return []
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def output_status(name: str) -> list[int]:
    """As source_status, without the change time: other links to an output change that."""
    return source_status(name)[:3]
