"""Small workspaces, loaded with a few rules of the tests' own, and what loading says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.core.label import parse_label
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema
from rules_executorch.builder.core.target import Target
from rules_executorch.builder.loading.load import LoadedGraph, load
from rules_executorch.builder.loading.workspace import find_workspace

from .analysed import write_workspace

SCHEMAS: Mapping[str, RuleSchema] = {
    schema.name: schema
    for schema in (
        RuleSchema(
            "thing",
            "A thing of the tests.",
            {
                "srcs": Attribute(AttributeType.LABEL_LIST, "Sources.", allow_files=True),
                "deps": Attribute(AttributeType.LABEL_LIST, "Other things."),
                "scripts": Attribute(
                    AttributeType.LABEL_LIST, "Only .py files.", allow_files=True, extensions=(".py",)
                ),
                "one": Attribute(AttributeType.LABEL, "One label.", allow_files=True),
                "outs": Attribute(AttributeType.OUTPUT_LIST, "What it makes."),
                "text": Attribute(AttributeType.STRING, "Any text."),
                "size": Attribute(AttributeType.STRING, "How big.", "small", values=("small", "large")),
                "count": Attribute(AttributeType.INT, "How many.", 1),
                "flag": Attribute(AttributeType.BOOL, "Yes or no."),
                "words": Attribute(AttributeType.STRING_LIST, "Some words."),
                "table": Attribute(AttributeType.STRING_DICT, "Words by words."),
                "data": Attribute(AttributeType.PLAIN, "Anything."),
                "_hidden": Attribute(AttributeType.STRING, "Not for users.", "hidden"),
            },
        ),
        RuleSchema("strict", "Needs a text.", {"text": Attribute(AttributeType.STRING, "The text.", mandatory=True)}),
        RuleSchema(
            "thing_test",
            "A test.",
            {"deps": Attribute(AttributeType.LABEL_LIST, "Things.")},
            is_test=True,
            is_executable=True,
        ),
        RuleSchema(
            "alias", "Another name.", {"actual": Attribute(AttributeType.LABEL, "Its target.", allow_files=True)}
        ),
        RuleSchema(
            "config_setting",
            "A condition.",
            {"values": Attribute(AttributeType.STRING_DICT, "What must hold.", mandatory=True, configurable=False)},
        ),
    )
}


def load_files(
    root: Path, files: Mapping[str, str], *patterns: str, configs: Sequence[str] = (), package: str = ""
) -> LoadedGraph:
    """What `patterns` (everything, if none are given) mean in a workspace `w` made of `files`."""
    write_workspace(root, files)
    return load(find_workspace(root), patterns or ("//...",), SCHEMAS, configs=configs, relative_package=package)


def target_of(graph: LoadedGraph, label: str) -> Target:
    """A rule's instance."""
    target = graph.target(parse_label(label))
    assert isinstance(target, Target)
    return target


def messages(root: Path, files: Mapping[str, str], *patterns: str, configs: Sequence[str] = ()) -> list[str]:
    """The messages of the mistakes in a workspace, each with its place."""
    with pytest.raises(BuildError) as caught:
        load_files(root, files, *patterns, configs=configs)
    return [f"{d.location}: {d.message}" if d.location else d.message for d in caught.value.diagnostics]


def names(graph: LoadedGraph) -> list[str]:
    """The roots."""
    return [str(root) for root in graph.roots]
