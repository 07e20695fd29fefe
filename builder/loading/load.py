"""Loading: target patterns → the targets that they mean, and all that those depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.diagnostics import BuildError, Diagnostic, Location, UsageError, nearest
from ..core.label import Label
from ..core.rule import Attribute, RuleSchema
from ..core.target import GeneratedFile, Package, SourceFile, Target, Workspace
from .conditions import Conditions, unknown_configs
from .cycles import find_cycle
from .excerpt import call_diagnostic
from .files import Files
from .inputs import LoadInputs
from .interpreter import Interpreter
from .packages import NoPackage, Packages, RawPackage
from .patterns import Pattern, packages_below, parse_pattern
from .root import WORKSPACE_FILE
from .targets import TargetMaker
from .visibility import is_visible


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

    def target(self, label: Label) -> Target | SourceFile | GeneratedFile:
        """What a label names. Raises KeyError for what was not loaded."""
        return find(self.packages[(label.repo, label.package)], label.name)


def find(package: Package, name: str) -> Target | SourceFile | GeneratedFile:
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
        loader = _Loader(workspace, files, interpreter, schemas, configs, include_manual)
        roots = loader.roots([parse_pattern(p, workspace, files, relative_package) for p in patterns])
        loader.visit(roots)
        unknown = loader.unknown_configs([name for name in configs if name not in sections])
    if loader.diagnostics:
        raise BuildError(_in_order([*loader.diagnostics, *unknown]))
    if unknown:
        raise UsageError(unknown)
    return LoadedGraph(workspace, loader.packages(), tuple(roots), files.inputs())


class _Loader:
    """What is loaded so far."""

    def __init__(
        self,
        workspace: Workspace,
        files: Files,
        interpreter: Interpreter,
        schemas: Mapping[str, RuleSchema],
        configs: Sequence[str],
        include_manual: bool,
    ):
        self.diagnostics: list[Diagnostic] = []
        self._include_manual = include_manual
        self._workspace = workspace
        self._files = files
        self._raw = Packages(workspace, files, interpreter, schemas, self.diagnostics)
        conditions = Conditions(self._raw, configs)
        self._maker = TargetMaker(schemas, conditions, interpreter.selects, workspace.name, self.diagnostics)
        self._packages: dict[tuple[str, str], tuple[RawPackage, Package, dict[str, SourceFile]]] = {}
        self._found: dict[Label, Target | SourceFile | GeneratedFile] = {}
        self._label_attributes = {
            schema.name: [(name, a) for name, a in schema.all_attributes.items() if a.is_label]
            for schema in schemas.values()
        }

    def packages(self) -> dict[tuple[str, str], Package]:
        return {key: package for key, (_, package, _) in self._packages.items()}

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
            self.diagnostics.append(Diagnostic(error.message, notes=error.notes, remedy=error.remedy))
            return []
        if not names:
            self.diagnostics.append(
                Diagnostic(f"'{pattern.text}' means nothing: there is no BUILD file there", remedy="mend the pattern")
            )
        return [label for name in names for label in self._wildcard(pattern.repo, name)]

    def _packages_below(self, pattern: Pattern) -> Iterator[str]:
        if pattern.repo and pattern.repo not in self._workspace.repositories:
            self._raw.folder(pattern.repo, pattern.package)
        root = str(self._workspace.repository_root(pattern.repo))
        folder = f"{root}/{pattern.package}" if pattern.package else root
        return packages_below(folder, pattern.package, self._files)

    def _single(self, pattern: Pattern, label: Label) -> list[Label]:
        raw, package = self._package(label.repo, label.package)
        if self._find(label) is None and not raw.may_define(label.name):
            self.diagnostics.append(_no_such_target(label, raw, package, None))
        return [label] if self._find(label) is not None else []

    def _wildcard(self, repo: str, name: str) -> Iterator[Label]:
        _, package = self._package(repo, name)
        for target in package.targets.values():
            if self._include_manual or "manual" not in target.attributes["tags"]:
                yield target.label

    def _package(self, repo: str, name: str) -> tuple[RawPackage, Package]:
        """A package with its targets. Raises NoPackage where there is none."""
        key = (repo, name)
        if key not in self._packages:
            raw = self._raw.get(repo, name)
            package = self._maker.package(raw)
            # Source files join as targets name them.
            files = dict(package.files)
            complete = Package(repo, name, package.build_file, package.targets, files, package.outputs)
            self._packages[key] = (raw, complete, files)
        raw, package, _ = self._packages[key]
        return raw, package

    def _find(self, label: Label) -> Target | SourceFile | GeneratedFile | None:
        """What a label names: a target, or a file of its package that is there. None for nothing."""
        found = self._found.get(label)
        if found is None:
            found = self._look_up(label)
            if found is not None:
                self._found[label] = found
        return found

    def _look_up(self, label: Label) -> Target | SourceFile | GeneratedFile | None:
        raw, package = self._package(label.repo, label.package)
        found = package.targets.get(label.name) or package.outputs.get(label.name)
        if found is not None:
            return found
        path = f"{raw.folder}/{label.name}"
        if not self._files.is_file(path) or self._inner_package(raw, label.name) is not None:
            return None
        files = self._packages[(label.repo, label.package)][2]
        if label.name not in files:
            files[label.name] = SourceFile(label, Path(path))
        return files[label.name]

    def _inner_package(self, raw: RawPackage, name: str) -> str | None:
        """The package between this one and a file's path, to which the file belongs."""
        found = None
        segments = name.split("/")[:-1]
        for length in range(1, len(segments) + 1):
            inner = "/".join(segments[:length])
            if self._files.is_workspace(f"{raw.folder}/{inner}"):
                # All below it is data.
                return found
            if self._files.is_package(f"{raw.folder}/{inner}"):
                found = inner
        return found

    def visit(self, roots: Sequence[Label]) -> None:
        """Load all that the roots depend on, each once; check every edge, and that there is no cycle."""
        seen = dict.fromkeys(roots)
        queue = list(roots)
        edges: dict[Label, tuple[Label, ...]] = {}
        while queue:
            label = queue.pop()
            node = self._find(label)
            if isinstance(node, GeneratedFile):
                edges[label] = (node.generator,)
            elif isinstance(node, Target):
                edges[label] = tuple(self._checked_dependencies(node))
            for dependency in edges.get(label, ()):
                if dependency not in seen:
                    seen[dependency] = None
                    queue.append(dependency)
        cycle = find_cycle(seen, edges)
        if cycle:
            self.diagnostics.append(self._cycle(cycle))

    def _checked_dependencies(self, target: Target) -> Iterator[Label]:
        """The dependencies of a target that are there; whatever is wrong with them is reported."""
        for name, attribute in self._label_attributes[target.schema.name]:
            value = target.attributes[name]
            for label in (value,) if isinstance(value, Label) else value or ():
                if self._check_edge(target, name, attribute, label):
                    yield label

    def _check_edge(self, target: Target, name: str, attribute: Attribute, label: Label) -> bool:
        """Whether a dependency exists, reported if not; reports what else is wrong with it, too."""
        try:
            node = self._find(label)
        except NoPackage as error:
            self._report(target, name, label, error.message, error.notes, error.remedy)
            return False
        if node is None:
            raw, package = self._package(label.repo, label.package)
            if not raw.may_define(label.name):
                self.diagnostics.append(self._missing(target, name, label, raw, package))
            return False
        if isinstance(node, Target):
            if node.attributes["testonly"] and not target.attributes["testonly"]:
                remedy = f"set testonly = True on {target.label}, or depend on something else"
                message = f"{target.label} cannot depend on {label}, which is testonly"
                self._report(target, name, label, message, (f"it is defined at {node.location}",), remedy)
        else:
            self._check_file(target, name, attribute, label)
        self._check_visible(target, name, label, node)
        return True

    def _check_file(self, target: Target, name: str, attribute: Attribute, label: Label) -> None:
        what = f"'{name}' of {target.schema.name} '{target.label.name}'"
        if not attribute.allow_files:
            remedy = "name a target that has the file in its attributes"
            self._report(target, name, label, f"{what} takes targets, and {label} is a file", (), remedy)
        elif attribute.extensions and not label.name.endswith(attribute.extensions):
            listed = ", ".join(attribute.extensions)
            remedy = f"name a {' or '.join(attribute.extensions)} file"
            self._report(
                target, name, label, f"{what} takes {listed} files, not {label.name}", (attribute.doc,), remedy
            )

    def _check_visible(
        self, target: Target, name: str, label: Label, node: Target | SourceFile | GeneratedFile
    ) -> None:
        owner = self._find(node.generator) if isinstance(node, GeneratedFile) else node
        if not isinstance(owner, (Target, SourceFile)) or is_visible(owner.visibility, label, target.label):
            return
        user = target.label.package
        if isinstance(owner, SourceFile) and not owner.visibility:
            notes: tuple[str, ...] = ("files are private to their package unless it exports them",)
            remedy = f'add exports_files(["{label.name}"]) to {label.package}/BUILD'.replace("to /", "to ")
        else:
            notes = (f"its visibility is {', '.join(owner.visibility) or '//visibility:private'}",)
            if isinstance(owner, Target):
                notes += (f"it is defined at {owner.location}",)
            remedy = f'add "//{user}:__pkg__" to the visibility of {label}, or depend on something public'
        self._report(target, name, label, f"{label} is not visible from //{user}", notes, remedy)

    def _missing(self, target: Target, name: str, label: Label, raw: RawPackage, package: Package) -> Diagnostic:
        inner = self._inner_package(raw, label.name)
        if inner is not None:
            inner_package = f"{label.package}/{inner}".lstrip("/")
            right = Label(label.repo, inner_package, label.name[len(inner) + 1 :])
            missing = Diagnostic(
                f"{label} crosses into the package //{inner_package}",
                remedy=f'write "{right}", and export the file there',
            )
        else:
            missing = _no_such_target(label, raw, package, self._files.entries(raw.folder), user=target.label)
        return self._at(target, name, label, missing.message, missing.notes, missing.remedy)

    def _cycle(self, cycle: Sequence[Label]) -> Diagnostic:
        first = self._find(cycle[0])
        shown = " → ".join(str(label) for label in cycle)
        message = f"dependency cycle: {shown}"
        remedy = "break the cycle: move what both sides need into a target of its own"
        if not isinstance(first, Target):
            return Diagnostic(message, remedy=remedy)
        attribute = next(
            (n for n, a in first.schema.all_attributes.items() if a.is_label and _names(first.attributes[n], cycle[1])),
            "name",
        )
        return self._at(first, attribute, cycle[1], message, (), remedy)

    def unknown_configs(self, configs: Sequence[str]) -> list[Diagnostic]:
        """A diagnostic for each of `configs` that nothing in the workspace mentions."""
        if not unknown_configs(self._raw, configs):
            return []
        # It may be mentioned where this load has not been. Mistakes that are there concern nobody now.
        before = len(self.diagnostics)
        for name in packages_below(str(self._workspace.root), "", self._files):
            self._raw.get("", name)
        del self.diagnostics[before:]
        return unknown_configs(self._raw, configs)

    def _report(
        self,
        target: Target,
        attribute: str,
        label: Label,
        message: str,
        notes: Sequence[str] = (),
        remedy: str | None = None,
    ) -> None:
        self.diagnostics.append(self._at(target, attribute, label, message, notes, remedy))

    def _at(
        self, target: Target, attribute: str, label: Label, message: str, notes: Sequence[str], remedy: str | None
    ) -> Diagnostic:
        """A mistake where a target names a label."""
        raw = self._packages[(target.label.repo, target.label.package)][0]
        call = raw.calls[target.label.name]
        text = next((t for t in _spellings(label, target.label) if t in raw.source.text), None)
        return call_diagnostic(raw.source, call, message, attribute, text, notes=notes, remedy=remedy)


def _names(value: object, label: Label) -> bool:
    return value == label or (isinstance(value, tuple) and label in value)


def _spellings(label: Label, user: Label) -> Iterator[str]:
    """The ways to write a label in the package of `user`."""
    yield str(label)
    if label.name == label.package.rpartition("/")[2]:
        yield str(label).rpartition(":")[0]
    if (label.repo, label.package) == (user.repo, user.package):
        yield f":{label.name}"
        yield label.name


def _no_such_target(
    label: Label,
    raw: RawPackage,
    package: Package,
    entries: Mapping[str, bool] | None,
    user: Label | None = None,
) -> Diagnostic:
    """There is no target of that name, nor a file."""
    names = {*package.targets, *package.outputs, *raw.calls}
    if user is not None and label.sibling(user.name) == user:
        names.discard(user.name)
    near = nearest(label.name, {*names, *(name for name, is_folder in (entries or {}).items() if not is_folder)})
    looks_like_file = "." in label.name
    if (entries or {}).get(label.name):
        return Diagnostic(
            f"{label} is a folder, which no label can name",
            remedy=f'name its files: glob(["{label.name}/**"])',
        )
    what = "file or target" if looks_like_file and entries is not None else "target"
    remedy = (
        "mend the label, or create the file"
        if looks_like_file
        else f"mend the label, or define it in {raw.source.name}"
    )
    return Diagnostic(
        f"there is no {what} {label}",
        Location(raw.source.name),
        notes=(f"did you mean '{label.sibling(near)}'?",) if near else (),
        remedy=remedy,
    )


def _in_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Each once: those without a place first, the rest file by file, in order of lines."""
    unique = dict.fromkeys(diagnostics)
    return sorted(unique, key=lambda d: (d.location is not None, d.location or Location("")))
