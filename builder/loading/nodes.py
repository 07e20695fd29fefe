"""What labels name: targets, files that rules make, and files that are there, of packages loaded on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..core.diagnostics import Diagnostic
from ..core.label import Label
from ..core.rule import RuleSchema
from ..core.target import GeneratedFile, Package, SourceFile, Target, Workspace
from .conditions import Conditions
from .files import Files
from .interpreter import Interpreter
from .packages import Packages, RawPackage
from .targets import TargetMaker

Node = Target | SourceFile | GeneratedFile


class Nodes:
    """All packages that were asked for, and what labels name in them.

    `raw` has the packages' calls as they were evaluated, `files` what was seen of the disk. What is wrong with
    a package goes to `diagnostics`.
    """

    def __init__(
        self,
        workspace: Workspace,
        files: Files,
        interpreter: Interpreter,
        schemas: Mapping[str, RuleSchema],
        configs: Sequence[str],
        diagnostics: list[Diagnostic],
    ):
        self.files = files
        self.raw = Packages(workspace, files, interpreter, schemas, diagnostics)
        conditions = Conditions(self.raw, configs)
        self._maker = TargetMaker(schemas, conditions, interpreter.selects, workspace.name, diagnostics)
        self._packages: dict[tuple[str, str], tuple[RawPackage, Package, dict[str, SourceFile]]] = {}
        self._found: dict[Label, Node] = {}

    def packages(self) -> dict[tuple[str, str], Package]:
        """Those that were asked for, by repository and name."""
        return {key: package for key, (_, package, _) in self._packages.items()}

    def package(self, repo: str, name: str) -> tuple[RawPackage, Package]:
        """A package with its targets. Raises NoPackage where there is none."""
        key = (repo, name)
        if key not in self._packages:
            raw = self.raw.get(repo, name)
            package = self._maker.package(raw)
            # Source files join as targets name them.
            files = dict(package.files)
            complete = Package(repo, name, package.build_file, package.targets, files, package.outputs)
            self._packages[key] = (raw, complete, files)
        raw, package, _ = self._packages[key]
        return raw, package

    def find(self, label: Label) -> Node | None:
        """What a label names: a target, or a file of its package that is there. None for nothing."""
        found = self._found.get(label)
        if found is None:
            found = self._look_up(label)
            if found is not None:
                self._found[label] = found
        return found

    def _look_up(self, label: Label) -> Node | None:
        raw, package = self.package(label.repo, label.package)
        found = package.targets.get(label.name) or package.outputs.get(label.name)
        if found is not None:
            return found
        path = f"{raw.folder}/{label.name}"
        if not self.files.is_file(path) or self.inner_package(raw, label.name) is not None:
            return None
        files = self._packages[(label.repo, label.package)][2]
        if label.name not in files:
            files[label.name] = SourceFile(label, Path(path))
        return files[label.name]

    def inner_package(self, raw: RawPackage, name: str) -> str | None:
        """The package between this one and a file's path, to which the file belongs."""
        found = None
        segments = name.split("/")[:-1]
        for length in range(1, len(segments) + 1):
            inner = "/".join(segments[:length])
            if self.files.is_workspace(f"{raw.folder}/{inner}"):
                # All below it is data.
                return found
            if self.files.is_package(f"{raw.folder}/{inner}"):
                found = inner
        return found
