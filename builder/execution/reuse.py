"""Brings up to date, before ninja is asked, what takes no running: a look-up takes less time than one of ninja's edges."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from ..cache.keys import InputFile
from ..core.action import Action, Artifact
from .layout import Layout
from .runner import How, Machine, reuse_action
from .scheduler import Listener


def reuse_all(
    machine: Machine, actions: Iterable[Action], producers: Mapping[str, str], listener: Listener
) -> Counter[How]:
    """Make do, for as many of `actions` as can be, with what the workspace or the cache has; how many of each.

    Each action comes after those that make its inputs. `producers` has, by the exec_path of each output, the first
    output of the action that makes it. An action that has to run, or that needs one that has to, is left as it is.
    """
    counts: Counter[How] = Counter()
    # Each source is looked at once. One that changes while this goes on differs from what the build took for
    # granted when it began, and so it is looked at again by the next.
    sources: dict[Artifact, InputFile] = {}
    for action in actions:
        if not _can_begin(machine.layout, action, producers):
            continue
        outcome = reuse_action(machine, action, sources)
        if outcome is not None:
            counts[outcome.how] += 1
            listener.finished(action, outcome)
    return counts


def _can_begin(layout: Layout, action: Action, producers: Mapping[str, str]) -> bool:
    """Whether all that makes the action's inputs is done."""
    needed = {producers[artifact.exec_path] for artifact in action.inputs if artifact.source is None}
    return all(os.path.exists(layout.stamp(output)) for output in needed)
