"""Actions → build.ninja.

Each action is one edge. Its output is the action's stamp, an empty file whose time moves when an
output changes; edges that need the action depend on the stamp, so that the times of the outputs
themselves, which are links into the store, mean nothing. The command names the action by the digest of its definition.

The edges are those of a generator: ninja asks for one because its stamp is missing or older than an input, and not
because its log does not know the command. What else is a reason to ask removes the stamp (see commands/stamps.py).

Inputs that the same actions have in common, such as a library's sources, are one phony edge: with thousands of
actions, that makes the file some fifty times smaller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from ..core.action import Action, Artifact
from .layout import OUTPUT_FOLDER, Layout
from .ninja import CLIENT_VARIABLE, PYTHON_VARIABLE

_STATE = f"{OUTPUT_FOLDER}/.state"

_HEAD = f"""\
# Written by `build`, for the ninja that it starts.
ninja_required_version = 1.11
builddir = {_STATE}
rule run
  command = exec "$${PYTHON_VARIABLE}" -I -S "$${CLIENT_VARIABLE}" $action
  description = $action
  restat = 1
  generator = 1
"""


def ninja_file(layout: Layout, actions: Sequence[Action], definitions: Sequence[str]) -> str:
    """The text of build.ninja, for a ninja that runs in the workspace's root.

    `definitions` are the digests of the actions' definitions, by which edges ask for them.
    """
    root = f"{layout.root}{os.sep}"
    stamps = {
        output.exec_path: _escape(layout.relative_stamp(action.outputs[0].exec_path))
        for action in actions
        for output in action.outputs
    }
    names: dict[Artifact, str] = {}

    def name(artifact: Artifact) -> str:
        if artifact.source is None:
            return stamps[artifact.exec_path]
        found = names.get(artifact)
        if found is None:
            found = names[artifact] = _escape(str(artifact.source).removeprefix(root))
        return found

    lines = [_HEAD]
    group_of: dict[Artifact, str] = {}
    for number, group in enumerate(_inputs_in_common(actions)):
        phony = f"{_STATE}/inputs/{number}"
        group_of.update(dict.fromkeys(group, phony))
        lines.append(f"build {phony}: phony {' '.join(dict.fromkeys(map(name, group)))}\n")
    for action, definition in zip(actions, definitions):
        inputs = " ".join(dict.fromkeys([group_of.get(artifact) or name(artifact) for artifact in action.inputs]))
        lines.append(f"build {stamps[action.outputs[0].exec_path]}: run {inputs}\n  action = {definition}\n")
    return "".join(lines)


def _inputs_in_common(actions: Sequence[Action]) -> Iterator[list[Artifact]]:
    """Groups of several inputs that exactly the same several actions read. Linear in all inputs of all actions."""
    # A number stands for the actions that read an input, as far as they have been looked at.
    readers: dict[Artifact, int] = {}
    numbers: dict[tuple[int, int], int] = {}
    for index, action in enumerate(actions):
        for artifact in action.inputs:
            so_far = (readers.get(artifact, 0), index)
            readers[artifact] = numbers.setdefault(so_far, len(numbers) + 1)
    alone = {number for (before, _), number in numbers.items() if before == 0}
    groups: dict[int, list[Artifact]] = {}
    for artifact, number in readers.items():
        groups.setdefault(number, []).append(artifact)
    return (group for number, group in groups.items() if len(group) > 1 and number not in alone)


def _escape(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
