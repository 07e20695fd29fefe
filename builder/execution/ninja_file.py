"""Actions → build.ninja.

Each action is one edge. Its first output is the action's stamp, an empty file whose time moves when
an output changes; edges that need the action depend on the stamp, so that the times of the outputs
themselves, which are links into the store, mean nothing. The outputs are listed as well, for ninja
to see one that was deleted. The command names the action by the digest of its definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    for action in actions:
        stamp = name(layout.stamp(action.outputs[0].exec_path))
        outputs = " ".join(name(layout.output(a.exec_path)) for a in action.outputs)
        inputs = " ".join(dict.fromkeys(name_input(a) for a in action.inputs))
        lines.append(f"build {stamp} | {outputs}: run {inputs}\n  action = {definition_digest(action, toolchains)}\n")
    return "".join(lines)


def _escape(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
