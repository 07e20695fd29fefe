"""Answers queries: loads what an expression names, and evaluates it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.label import Label
from ..core.rule import RuleSchema
from ..core.target import Package, Workspace
from ..loading.files import Files
from ..loading.load import load
from ..loading.patterns import Pattern, parse_pattern
from .evaluate import Graph, check, evaluate, pattern_words
from .parse import parse


@dataclass(frozen=True)
class Answer:
    """The labels that a query means, in order, and for each those of them that it depends on directly."""

    labels: tuple[Label, ...]
    edges: Mapping[Label, tuple[Label, ...]]


def query(
    workspace: Workspace,
    expression: str,
    schemas: Mapping[str, RuleSchema],
    *,
    configs: Sequence[str] = (),
    sections: Sequence[str] = (),
    relative_package: str = "",
) -> Answer:
    """What `expression` means. The arguments are those of `load`.

    Labels are sorted, except those of somepath(), which are in order along the path.

    Raises:
        UsageError: the expression has mistakes.
        BuildError: what it loads has mistakes.
    """
    parsed = parse(expression)
    check(parsed, expression)
    files = Files()
    patterns = {
        word.text: parse_pattern(word.text, workspace, files, relative_package) for word in pattern_words(parsed)
    }
    loaded = load(
        workspace,
        tuple(patterns),
        schemas,
        configs=configs,
        sections=sections,
        relative_package=relative_package,
        include_manual=True,
    )
    graph = Graph(loaded, {text: tuple(_expand(pattern, loaded.packages)) for text, pattern in patterns.items()})
    labels = evaluate(parsed, expression, graph)
    among = frozenset(labels)
    return Answer(labels, {label: tuple(d for d in graph.dependencies(label) if d in among) for label in labels})


def _expand(pattern: Pattern, packages: Mapping[tuple[str, str], Package]) -> Iterator[Label]:
    """The labels that a pattern means among packages that were loaded for it."""
    if pattern.label is not None:
        yield pattern.label
        return
    for (repo, name), package in packages.items():
        below = pattern.recursive and (not pattern.package or name.startswith(pattern.package + "/"))
        if repo == pattern.repo and (name == pattern.package or below):
            yield from (target.label for target in package.targets.values())
