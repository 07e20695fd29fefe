"""Removes the stamps of actions that have to be looked at again, for whatever reason ninja does not see.

A stamp that exists says: the action has been seen to, as it is defined in `.state/definitions`. So stamps of actions
that are defined otherwise now are removed before that file says so, and whoever is killed when, no stamp is
taken for another definition's.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from zlib import crc32

from ..execution.layout import Layout
from . import watch
from .analysed import read_actions
from .request import Analysed, Request, write_file


def forget_stamps(request: Request, analysed: Analysed, changed: set[str], *, compare_all: bool) -> list[int]:
    """Make ninja ask for the actions that read or make one of the changed files, or are defined in another way.

    `compare_all`: the request has no memory of these actions. What the last builds of all requests left then says
    which files changed; and nobody has watched the inputs of an action that none of these had.

    Returns the numbers of the actions that have lost their stamps, or never had one, each after those that it needs.
    """
    actions = read_actions(request)
    layout = Layout(Path(request.root), analysed.name)
    watched = _watched_by_all(request) if compare_all else []
    changed = changed.union(*(watch.changed_files(one)[0] for one in watched))
    known = {path for one in watched for path in one.outputs}

    def place(exec_path: str, source: str | None = None) -> str:
        return source or f"{request.root}/{layout.relative_output(exec_path)}"

    stale = set(actions.naming(lambda exec_path, source: place(exec_path, source) in changed) if changed else ())
    stood_for = _read_definitions(request)
    stands_for = dict(stood_for)
    for number, (output, definition) in enumerate(zip(actions.first_outputs(), actions.definitions)):
        if stood_for.get(output) != definition or (compare_all and place(output) not in known):
            stale.add(number)
            stands_for[output] = definition
        if number in stale:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(layout.stamp(output))
    if stands_for != stood_for:
        _write_definitions(request, stands_for)
    return sorted(stale)


def _watched_by_all(request: Request) -> list[watch.Watched]:
    kept = [watch.read(str(folder)) for folder in Path(request.state, "requests").glob("*")]
    return [one for one in kept if one is not None]


def _read_definitions(request: Request) -> dict[str, str]:
    """The definitions of actions by their first outputs; none where they cannot be read, so that all stamps go."""
    try:
        with open(_path(request), "rb") as file:
            checksum, _, body = file.read().partition(b"\n")
        return dict(json.loads(body)) if int(checksum) == crc32(body) else {}
    except (OSError, ValueError):
        return {}


def _write_definitions(request: Request, definitions: dict[str, str]) -> None:
    body = json.dumps(definitions, separators=(",", ":"))
    write_file(_path(request), f"{crc32(body.encode())}\n{body}")


def _path(request: Request) -> str:
    return os.path.join(request.state, "definitions")
