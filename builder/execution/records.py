"""What is known of each action's last run in a workspace: a record for the builder, a stamp for ninja."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..cache.disk import result_from_json, result_to_json
from ..core.action import Action
from ..core.store import ActionResult
from .layout import Layout
from .outputs import clear_the_way


@dataclass(frozen=True)
class Record:
    """An action's last run: the walk that made its key, what it gave, and when its outputs last changed."""

    parts: list[tuple[str, str]]
    result: ActionResult
    changed_ns: int


def read_record(layout: Layout, action: Action) -> Record | None:
    """What is known of the action's last run; None where that is nothing, or unreadable."""
    try:
        data = json.loads(layout.record(action.outputs[0].exec_path).read_bytes())
        return Record([(p, v) for p, v in data["parts"]], result_from_json(data["result"]), int(data["changed_ns"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_record(
    layout: Layout,
    action: Action,
    parts: list[tuple[str, str]],
    result: ActionResult,
    before: Record | None,
    readers: Callable[[str], Iterable[str]],
) -> None:
    """Record a run, and set the stamp: its time moves only if an output changed, so that ninja stops there if none did.

    If one did, the actions that read it lose their stamps (`readers` gives their first outputs by this action's), so
    that they are asked for whatever comes of this build, and whatever the clock says: it may have been set back.
    """
    same = before is not None and before.result.outputs == result.outputs
    if not same:
        for reader in readers(action.outputs[0].exec_path):
            layout.stamp(reader).unlink(missing_ok=True)
    changed_ns = set_stamp(layout, action, before.changed_ns if before and same else None)
    data = {"parts": parts, "result": result_to_json(result), "changed_ns": changed_ns}
    path = layout.record(action.outputs[0].exec_path)
    clear_the_way(path, layout.state)
    temporary = path.with_name(f".writing-{path.name}")
    temporary.write_text(json.dumps(data, separators=(",", ":")))
    os.replace(temporary, path)


def set_stamp(layout: Layout, action: Action, changed_ns: int | None) -> int:
    """Set the time of the action's stamp to `changed_ns`, or to now; returns it."""
    path = layout.stamp(action.outputs[0].exec_path)
    clear_the_way(path, layout.state)
    path.touch()
    if changed_ns is not None:
        os.utime(path, ns=(changed_ns, changed_ns))
    return path.stat().st_mtime_ns
