"""Actions → build.ninja.

Each action is one edge. Its first output is the action's stamp, an empty file whose time moves when
an output changes; edges that need the action depend on the stamp, so that the times of the outputs
themselves, which are links into the store, mean nothing. The outputs are listed as well, for ninja
to see one that was deleted. The command names the action by the digest of its definition.

Inputs that the same actions have in common, such as a library's sources, are one phony edge: with thousands of
actions, that makes the file some fifty times smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..core.action import Action, Artifact, Toolchain
from .graph_file import definition_digest
from .layout import Layout
from .ninja import CLIENT_VARIABLE, PYTHON_VARIABLE

_HEAD = f"""\
# Written by `build`, for the ninja that it starts.
ninja_required_version = 1.11
builddir = {{state}}
rule run
  command = exec "$${PYTHON_VARIABLE}" -I -S "$${CLIENT_VARIABLE}" $action
  description = $action
  restat = 1
"""


def ninja_file(layout: Layout, actions: Sequence[Action], toolchains: Mapping[str, Toolchain]) -> str:
    """The text of build.ninja, for a ninja that runs in the workspace's root."""
    stamps = {
        output.exec_path: action.outputs[0].exec_path for action in actions for output in action.outputs
    }
    relative: dict[Path, str] = {}

    def name(path: Path) -> str:
        if path not in relative:
            inside = path.is_relative_to(layout.root)
            relative[path] = _escape(str(path.relative_to(layout.root) if inside else path))
        return relative[path]

    def name_input(artifact: Artifact) -> str:
        if artifact.source is not None:
            return name(artifact.source)
        return name(layout.stamp(stamps[artifact.exec_path]))

    lines = [_HEAD.format(state=name(layout.state))]
    group_of: dict[Artifact, str] = {}
    for number, group in enumerate(_inputs_in_common(actions)):
        phony = name(layout.state / "inputs" / str(number))
        group_of.update(dict.fromkeys(group, phony))
        lines.append(f"build {phony}: phony {' '.join(dict.fromkeys(map(name_input, group)))}\n")
    for action in actions:
        stamp = name(layout.stamp(action.outputs[0].exec_path))
        outputs = " ".join(name(layout.output(a.exec_path)) for a in action.outputs)
        inputs = " ".join(dict.fromkeys(group_of.get(a) or name_input(a) for a in action.inputs))
        lines.append(f"build {stamp} | {outputs}: run {inputs}\n  action = {definition_digest(action, toolchains)}\n")
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
