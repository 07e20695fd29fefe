"""Loading: target patterns → the targets that they mean, and all that those depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.diagnostics import BuildError, Diagnostic, Location, UsageError
from ..core.label import Label
from ..core.rule import RuleSchema
from ..core.target import GeneratedFile, Package, Target, Workspace
from .conditions import unknown_configs
from .cycles import find_cycle
from .edges import Edges, no_such_target
from .files import Files
from .inputs import LoadInputs
from .interpreter import Interpreter
from .nodes import Node, Nodes
from .packages import NoPackage
from .patterns import Pattern, packages_below, parse_pattern
from .root import WORKSPACE_FILE


@dataclass(frozen=True)
class LoadedGraph:
    """Targets and all that they depend on, checked.

    `packages` are those that were loaded, by repository ("" for the main one) and name; each holds
    all of its targets, but only what `roots` reach has its dependencies loaded. `roots` are the
    targets that the patterns mean, in order. `inputs` is all that was read.
    """

    workspace: Workspace
    packages: Mapping[tuple[str, str], Package]
    roots: tuple[Label, ...]
    inputs: LoadInputs

    def target(self, label: Label) -> Node:
        """What a label names. Raises KeyError for what was not loaded."""
        return find(self.packages[(label.repo, label.package)], label.name)


def find(package: Package, name: str) -> Node:
    """What a name in a package names: a target first. Raises KeyError for nothing."""
    found = package.targets.get(name) or package.outputs.get(name)
    return found or package.files[name]


def load(
    workspace: Workspace,
    patterns: Sequence[str],
    schemas: Mapping[str, RuleSchema],
    *,
    configs: Sequence[str] = (),
    sections: Sequence[str] = (),
    relative_package: str = "",
    include_manual: bool = False,
) -> LoadedGraph:
    """Load what `patterns` mean, and all that it depends on.

    `schemas` are the rules that BUILD files can use, by name. `configs` are the configurations
    which select()s go by; those in `sections` mean something elsewhere too, and need not be mentioned by a
    config_setting. `relative_package` is where relative patterns were typed. Wildcards leave
    out targets with the tag `manual`, unless `include_manual`.

    Raises:
        UsageError: a pattern is none, or a configuration is not mentioned anywhere.
        BuildError: with all mistakes that were found, in whichever file.
    """
    files = Files()
    # Read for the record: `workspace` is what it says.
    files.read(str(workspace.root / WORKSPACE_FILE))
    with Interpreter(schemas) as interpreter:
        diagnostics: list[Diagnostic] = []
        nodes = Nodes(workspace, files, interpreter, schemas, configs, diagnostics)
        expansion = _Expansion(workspace, nodes, include_manual, diagnostics)
        roots = expansion.roots([parse_pattern(p, workspace, files, relative_package) for p in patterns])
        _visit(roots, nodes, Edges(nodes, schemas, diagnostics))
        known = len(diagnostics)
        unknown = _unknown_configs([name for name in configs if name not in sections], workspace, nodes)
        # What else is wrong where only a config_setting was looked for concerns nobody now.
        del diagnostics[known:]
    if diagnostics:
        raise BuildError(_in_order([*diagnostics, *unknown]))
    if unknown:
        raise UsageError(unknown)
    return LoadedGraph(workspace, nodes.packages(), tuple(roots), files.inputs())


class _Expansion:
    """Patterns → the labels that they mean."""

    def __init__(self, workspace: Workspace, nodes: Nodes, include_manual: bool, diagnostics: list[Diagnostic]):
        self._workspace = workspace
        self._nodes = nodes
        self._include_manual = include_manual
        self._diagnostics = diagnostics

    def roots(self, patterns: Sequence[Pattern]) -> list[Label]:
        """The labels that patterns mean, in order and once each."""
        roots: dict[Label, None] = {}
        for pattern in patterns:
            labels = self._expand(pattern)
            if pattern.excluded:
                for label in labels:
                    roots.pop(label, None)
            else:
                roots.update(dict.fromkeys(labels))
        return list(roots)

    def _expand(self, pattern: Pattern) -> list[Label]:
        try:
            if pattern.label is not None:
                return self._single(pattern, pattern.label)
            if not pattern.recursive:
                return list(self._wildcard(pattern.repo, pattern.package))
            names = list(self._packages_below(pattern))
        except NoPackage as error:
            self._diagnostics.append(Diagnostic(error.message, notes=error.notes, remedy=error.remedy))
            return []
        if not names:
            self._diagnostics.append(
                Diagnostic(f"'{pattern.text}' means nothing: there is no BUILD file there", remedy="mend the pattern")
            )
        return [label for name in names for label in self._wildcard(pattern.repo, name)]

    def _packages_below(self, pattern: Pattern) -> Iterator[str]:
        if pattern.repo and pattern.repo not in self._workspace.repositories:
            self._nodes.raw.folder(pattern.repo, pattern.package)
        root = str(self._workspace.repository_root(pattern.repo))
        folder = f"{root}/{pattern.package}" if pattern.package else root
        return packages_below(folder, pattern.package, self._nodes.files)

    def _single(self, pattern: Pattern, label: Label) -> list[Label]:
        raw, package = self._nodes.package(label.repo, label.package)
        if self._nodes.find(label) is None and not raw.may_define(label.name):
            self._diagnostics.append(no_such_target(label, raw, package, None))
        return [label] if self._nodes.find(label) is not None else []

    def _wildcard(self, repo: str, name: str) -> Iterator[Label]:
        _, package = self._nodes.package(repo, name)
        for target in package.targets.values():
            if self._include_manual or "manual" not in target.attributes["tags"]:
                yield target.label


def _visit(roots: Sequence[Label], nodes: Nodes, edges: Edges) -> None:
    """Load all that the roots depend on, each once; check every edge, and that there is no cycle."""
    seen = dict.fromkeys(roots)
    queue = list(roots)
    known: dict[Label, tuple[Label, ...]] = {}
    while queue:
        label = queue.pop()
        node = nodes.find(label)
        if isinstance(node, GeneratedFile):
            known[label] = (node.generator,)
        elif isinstance(node, Target):
            known[label] = tuple(edges.dependencies(node))
        for dependency in known.get(label, ()):
            if dependency not in seen:
                seen[dependency] = None
                queue.append(dependency)
    cycle = find_cycle(seen, known)
    if cycle:
        edges.cycle(cycle)


def _unknown_configs(configs: Sequence[str], workspace: Workspace, nodes: Nodes) -> list[Diagnostic]:
    """A diagnostic for each of `configs` that nothing in the workspace mentions."""
    if not unknown_configs(nodes.raw, configs):
        return []
    # It may be mentioned where this load has not been.
    for name in packages_below(str(workspace.root), "", nodes.files):
        nodes.raw.get("", name)
    return unknown_configs(nodes.raw, configs)


def _in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Each once: those without a place first, the rest file by file, in order of lines."""
    unique = dict.fromkeys(diagnostics)
    return sorted(unique, key=lambda d: (d.location is not None, d.location or Location("")))
