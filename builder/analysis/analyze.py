"""Targets → action graph: runs each target's rule once, and keeps the actions that the roots need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..core.action import Action, Artifact, RunSpec, Toolchain
from ..core.diagnostics import BuildError, Diagnostic
from ..core.label import Label
from ..core.target import GeneratedFile, SourceFile, Target, Workspace
from .context import Dependency, RuleContext, package_path, target_error
from .providers import DefaultInfo, Provider, RunInfo
from .rule import Rule

if TYPE_CHECKING:
    from ..loading.load import LoadedGraph


@dataclass(frozen=True)
class ActionGraph:
    """What is to be done for the roots of a build.

    `actions` are those that the roots need, each after the actions that make its inputs.
    `default_outputs` are the files of each root; `runs` says how to run those roots that can be.
    """

    actions: tuple[Action, ...]
    default_outputs: Mapping[Label, tuple[Artifact, ...]]
    runs: Mapping[Label, RunSpec]


@dataclass
class _Analysis:
    """What is known so far. `failed` are targets without providers, because of their own mistakes or others'."""

    graph: LoadedGraph
    rules: Mapping[str, Rule]
    toolchains: Mapping[str, Toolchain]
    providers: dict[Label, Mapping[type[Provider], Provider]] = field(default_factory=dict)
    producers: dict[str, tuple[Target, Action]] = field(default_factory=dict)
    source_paths: set[str] = field(default_factory=set)
    failed: set[Label] = field(default_factory=set)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def analyze(graph: LoadedGraph, rules: Mapping[str, Rule], toolchains: Mapping[str, Toolchain]) -> ActionGraph:
    """The actions that build the roots of `graph`.

    `rules` are the rules by name; `toolchains` those that actions may name. Every target is
    analysed once, and linear in the size of the graph.

    Raises:
        BuildError: with the mistakes of all targets that can be analysed.
    """
    state = _Analysis(graph, rules, toolchains)
    for label in _dependencies_first(graph):
        _analyze_one(state, label)
    _check_outputs(state)
    if state.diagnostics:
        raise BuildError(state.diagnostics)
    default_outputs: dict[Label, tuple[Artifact, ...]] = {}
    runs: dict[Label, RunSpec] = {}
    for root in graph.roots:
        providers = state.providers[root]
        if isinstance(default := providers.get(DefaultInfo), DefaultInfo):
            default_outputs[root] = default.files
        if isinstance(run := providers.get(RunInfo), RunInfo):
            runs[root] = run.spec
    wanted = [artifact for files in default_outputs.values() for artifact in files]
    wanted += [artifact for spec in runs.values() for artifact in spec.runfiles]
    return ActionGraph(_needed_actions(wanted, state.producers), default_outputs, runs)


def _dependencies_first(graph: LoadedGraph) -> Iterable[Label]:
    """All labels that the roots reach, each once and after its dependencies; without recursion."""
    visited: set[Label] = set()
    for root in graph.roots:
        stack = [(root, False)]
        while stack:
            label, expanded = stack.pop()
            if expanded:
                yield label
            elif label not in visited:
                visited.add(label)
                stack.append((label, True))
                stack.extend((dependency, False) for dependency in reversed(_dependencies(graph.target(label))))


def _dependencies(node: Target | SourceFile | GeneratedFile) -> Sequence[Label]:
    if isinstance(node, GeneratedFile):
        return (node.generator,)
    return node.dependencies if isinstance(node, Target) else ()


def _analyze_one(state: _Analysis, label: Label) -> None:
    node = state.graph.target(label)
    if isinstance(node, SourceFile):
        artifact = source_artifact(state.graph.workspace, node)
        state.source_paths.add(artifact.exec_path)
        state.providers[label] = {DefaultInfo: DefaultInfo(files=(artifact,))}
        return
    if not state.failed.isdisjoint(_dependencies(node)):
        state.failed.add(label)
        return
    if isinstance(node, GeneratedFile):
        artifact = Artifact(f"{package_path(state.graph.workspace, label)}/{label.name}")
        state.providers[label] = {DefaultInfo: DefaultInfo(files=(artifact,))}
        return
    context = RuleContext(node, state.graph.workspace, _resolved_attributes(state, node))
    try:
        providers = state.rules[node.schema.name].implementation(context)
        _record_actions(state, node, context.actions)
    except BuildError as error:
        state.failed.add(label)
        state.diagnostics.extend(error.diagnostics)
        return
    state.providers[label] = _by_type(node, providers)


def source_artifact(workspace: Workspace, source: SourceFile) -> Artifact:
    """A source file as actions see it."""
    return Artifact(f"{package_path(workspace, source.label)}/{source.label.name}", source.path)


def _kind(node: Target | SourceFile | GeneratedFile) -> str:
    """What a node is called in messages."""
    if isinstance(node, Target):
        return node.schema.name
    return "source file" if isinstance(node, SourceFile) else "generated file"


def _resolved_attributes(state: _Analysis, target: Target) -> SimpleNamespace:
    """The target's attributes, with a Dependency for every label."""

    def dependency(label: Label, attribute: str) -> Dependency:
        node = state.graph.target(label)
        return Dependency(label, _kind(node), state.providers[label], attribute, target)

    values: dict[str, Any] = dict(target.attributes)
    for name, attribute in target.schema.attributes.items():
        value = values.get(name)
        if not attribute.is_label or value is None:
            continue
        if isinstance(value, Label):
            values[name] = dependency(value, name)
        else:
            values[name] = tuple(dependency(label, name) for label in value)
    return SimpleNamespace(**values)


def _by_type(target: Target, providers: Sequence[Provider]) -> dict[type[Provider], Provider]:
    by_type = {type(provider): provider for provider in providers}
    if len(by_type) != len(providers):
        raise ValueError(f"rule {target.schema.name} returned two providers of one type for {target.label}")
    return by_type


def _record_actions(state: _Analysis, target: Target, actions: Iterable[Action]) -> None:
    """Remember who makes what.

    Raises:
        BuildError: something is made twice, or a toolchain is not known.
    """
    for action in actions:
        for name in (action.toolchain, *action.also):
            if name and name not in state.toolchains:
                known = ", ".join(sorted(state.toolchains))
                raise target_error(target, f"{target.label} needs toolchain '{name}'", notes=(f"known: {known}",))
        for output in action.outputs:
            other, _ = state.producers.setdefault(output.exec_path, (target, action))
            if state.producers[output.exec_path][1] is not action:
                raise _made_twice(target, other, output)


def _made_twice(target: Target, other: Target, output: Artifact) -> BuildError:
    if other is target:
        return target_error(
            target, f"{target.label} makes {output.exec_path} twice", remedy="give each output a name of its own"
        )
    return target_error(
        target,
        f"{target.label} and {other.label} both make {output.exec_path}",
        notes=(f"{other.label} is defined at {other.location}",),
        remedy="rename one of the two targets, or its output",
    )


def _check_outputs(state: _Analysis) -> None:
    """Add a diagnostic for every output that stands where a source file is, or inside another output."""
    for path, (target, _) in state.producers.items():
        if path in state.source_paths:
            state.diagnostics.extend(
                target_error(
                    target,
                    f"{target.label} would make {path}, which is a source file",
                    remedy="give the output another name",
                ).diagnostics
            )
        folder = path.rpartition("/")[0]
        while folder:
            if folder in state.producers:
                other = state.producers[folder][0]
                state.diagnostics.extend(
                    target_error(
                        target,
                        f"{target.label} would make {path}, but {folder} is a file that {other.label} makes",
                        remedy="rename one of the two outputs",
                    ).diagnostics
                )
            folder = folder.rpartition("/")[0]


def _needed_actions(wanted: Iterable[Artifact], producers: Mapping[str, tuple[Target, Action]]) -> tuple[Action, ...]:
    """The actions that `wanted` need, each after those that make its inputs; without recursion.

    Raises:
        ValueError: a rule declared outputs that need each other, or that nothing makes.
    """
    done: dict[int, Action] = {}
    being_walked: set[int] = set()
    for artifact in wanted:
        stack = [(artifact, False)]
        while stack:
            current, expanded = stack.pop()
            if current.source is not None:
                continue
            if current.exec_path not in producers:
                raise ValueError(f"nothing makes {current.exec_path}: a rule forgot to declare an action")
            action = producers[current.exec_path][1]
            if expanded:
                done[id(action)] = action
            elif id(action) not in done:
                if id(action) in being_walked:
                    raise ValueError(f"{current.exec_path} is needed to make itself")
                being_walked.add(id(action))
                stack.append((current, True))
                stack.extend((source, False) for source in reversed(action.inputs))
    return tuple(done.values())
