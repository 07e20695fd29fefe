"""What a build did, what it prints of that, and what it keeps for the next one.

On the path of a build in which nothing changed, so it imports little.
"""

from __future__ import annotations

import os
from array import array
from collections import namedtuple

from ..core.settled import settled
from . import watch
from .console import Console
from .request import Analysed, Request
from .unchanged import identity_of

# What a build did: whether all succeeded; how many of `analysed.total` actions ran and how many came from the
# cache; the paths, relative to the root, of outputs that are missing or out of date, since the actions that make
# them, or what these need, failed.
Built = namedtuple("Built", "analysed succeeded ran cached not_built")

# More results than this are counted, not listed.
_LISTED = 20


def keep_statuses(
    request: Request,
    analysed: Analysed,
    sources: dict[str, tuple[int, ...]],
    outputs: list[str],
    console: Console,
    *,
    succeeded: bool = True,
) -> None:
    """Remember the sources as they were before the build, and the outputs as they are after it."""
    began = int(console.began * 1e9)
    certain = succeeded and all(settled(modified, changed, began) for _, _, modified, changed in sources.values())
    statuses = array("q", (number for status in sources.values() for number in status))
    statuses.extend(watch.statuses_of([], outputs))
    answer = results(request, Built(analysed, True, 0, 0, frozenset()))
    kept = watch.Watched(identity_of(*request[:4]), certain, answer, analysed.total, list(sources), outputs, statuses)
    watch.write(request.folder, kept)


def results(request: Request, built: Built, *, keep_going: bool = False) -> str:
    """Lines that say where the outputs are, for a user in the folder of the request's package.

    After a failure they say which outputs are still those of an earlier build, and, with `keep_going`, where those
    are that could be built.
    """
    here = request.package or "."
    lost = built.not_built
    with_outputs = [(label, outputs) for label, outputs, _, _ in built.analysed.targets if outputs]
    made = [(label, outputs) for label, outputs in with_outputs if not lost.intersection(outputs)]
    lines = []
    if built.succeeded or keep_going:
        for label, outputs in made[:_LISTED]:
            lines.append(f"{label}\n")
            lines += [f"  {os.path.relpath(output, here)}\n" for output in outputs]
        if len(made) > _LISTED:
            lines = [f"built {len(made)} targets in {os.path.join(request.root, 'build-out')}\n"]
    stale = sorted(output for output in lost if os.path.exists(os.path.join(request.root, output)))
    if stale:
        lines.append("out of date, from an earlier build:\n")
        lines += [f"  {os.path.relpath(output, here)}\n" for output in stale[:_LISTED]]
        lines += [f"  and {len(stale) - _LISTED} more\n"] if len(stale) > _LISTED else []
    return "".join(lines)
