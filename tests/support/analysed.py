"""Small workspaces, loaded and analysed with the real rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rules_executorch.builder.analysis.analyze import ActionGraph, analyze
from rules_executorch.builder.core.action import Action
from rules_executorch.builder.core.label import parse_label
from rules_executorch.builder.loading.load import load
from rules_executorch.builder.loading.workspace import find_workspace
from rules_executorch.rules import RULES

from .graphs import TOOLCHAINS


def write_workspace(root: Path, files: Mapping[str, str]) -> None:
    """Make the workspace `w` with these files; a file `BUILD` or `x/BUILD` for each package is among them."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "WORKSPACE").write_text('workspace(name = "w")\n')
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def analysed(root: Path, files: Mapping[str, str], *patterns: str, configs: Sequence[str] = ()) -> ActionGraph:
    """The action graph of `patterns` in a workspace `w` made of `files`."""
    write_workspace(root, files)
    schemas = {name: rule.schema for name, rule in RULES.items()}
    graph = load(find_workspace(root), patterns, schemas, configs=configs)
    return analyze(graph, RULES, TOOLCHAINS)


def actions_of(graph: ActionGraph, mnemonic: str) -> list[Action]:
    """The actions with this mnemonic, in the graph's order."""
    return [action for action in graph.actions if action.mnemonic == mnemonic]


def action_of(graph: ActionGraph, mnemonic: str) -> Action:
    """The only action with this mnemonic."""
    (action,) = actions_of(graph, mnemonic)
    return action


def paths(artifacts: Sequence[object]) -> list[str]:
    """The exec_paths of artifacts."""
    return [artifact.exec_path for artifact in artifacts]


def files_of(graph: ActionGraph, label: str) -> list[str]:
    """The default outputs of a root."""
    return paths(graph.default_outputs[parse_label(label)])


def arguments_after(argv: Sequence[str], flag: str) -> list[str]:
    """What follows `flag` in a command: `-I` → all include folders, `--out` → the next word."""
    joined = [argument[len(flag) :].lstrip("=") for argument in argv if argument.startswith(flag) and argument != flag]
    return joined + [following for word, following in zip(argv, argv[1:]) if word == flag]
