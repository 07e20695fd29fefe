"""Hand-made target graphs for tests of analysis: no BUILD file, no loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.providers import Provider
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Toolchain
from rules_executorch.builder.core.diagnostics import Location
from rules_executorch.builder.core.label import Label, parse_label
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema
from rules_executorch.builder.core.target import GeneratedFile, SourceFile, Target, Workspace

WORKSPACE = Workspace("here", Path("/here"), {"rules_executorch": Path("/rules")})
TOOLCHAINS = {
    name: Toolchain(name, (f"/usr/bin/{name}",), name) for name in ("python", "shell", "cc", "ar", "executorch")
}


@dataclass(frozen=True)
class Graph:
    """As much of a loaded graph as analysis reads."""

    workspace: Workspace
    roots: tuple[Label, ...]
    nodes: Mapping[Label, Target | SourceFile | GeneratedFile]

    def target(self, label: Label) -> Target | SourceFile | GeneratedFile:
        return self.nodes[label]


def label(text: str) -> Label:
    return parse_label(text, main_repo="here")


def rule(implementation: Callable[[RuleContext], Sequence[Provider]], name: str = "thing") -> Rule:
    """A rule with `deps` and `text`."""
    attributes = {
        "deps": Attribute(AttributeType.LABEL_LIST, "What it is made of.", (), allow_files=True),
        "text": Attribute(AttributeType.STRING, "Anything.", ""),
    }
    return Rule(RuleSchema(name, "A thing.", attributes), implementation)


def target(of: Rule, name: str, deps: Sequence[str] = (), text: str = "", line: int = 1) -> Target:
    labels = tuple(label(each) for each in deps)
    return Target(
        label=label(name),
        schema=of.schema,
        attributes={"name": label(name).name, "deps": labels, "text": text},
        visibility=("//visibility:public",),
        location=Location(f"{label(name).package}/BUILD".lstrip("/"), line),
        dependencies=tuple(dict.fromkeys(labels)),
    )


def source(name: str) -> SourceFile:
    return SourceFile(label(name), WORKSPACE.root / label(name).package / label(name).name)


def graph(roots: Sequence[str], *nodes: Target | SourceFile | GeneratedFile) -> Graph:
    return Graph(WORKSPACE, tuple(label(root) for root in roots), {node.label: node for node in nodes})
