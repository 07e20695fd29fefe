"""Targets: what loading makes of BUILD files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .diagnostics import Location
from .label import Label
from .rule import RuleSchema


@dataclass(frozen=True)
class Target:
    """A rule's instance.

    `attributes` holds every attribute of the rule: select()s resolved, defaults filled in, labels
    as Label values (tuples for lists), plain data as tuples, dicts and scalars. `dependencies`
    are the labels in it, in order and once each. `visibility` is a tuple of the strings that
    COMMON_ATTRIBUTES["visibility"] describes, package defaults applied. `source_line` is the text of
    the line at `location`, for messages.
    """

    label: Label
    schema: RuleSchema
    attributes: Mapping[str, Any]
    visibility: tuple[str, ...]
    location: Location
    dependencies: tuple[Label, ...] = ()
    source_line: str | None = None


@dataclass(frozen=True)
class SourceFile:
    """A file of the workspace that some target names, or that exports_files() exports."""

    label: Label
    path: Path
    visibility: tuple[str, ...] = ()


@dataclass(frozen=True)
class GeneratedFile:
    """A file that a target makes, named by one of its OUTPUT_LIST attributes.

    It is as visible as its generator, and building it builds that.
    """

    label: Label
    generator: Label


@dataclass(frozen=True)
class Package:
    """One BUILD file's targets, source files and generated files, by name."""

    repo: str
    name: str
    build_file: Path
    targets: Mapping[str, Target] = field(default_factory=dict)
    files: Mapping[str, SourceFile] = field(default_factory=dict)
    outputs: Mapping[str, GeneratedFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Workspace:
    """A main workspace: its name (from WORKSPACE), its root, and the roots of other repositories.

    `repositories` maps a repository's name to its root; it always holds `rules_executorch`.
    """

    name: str
    root: Path
    repositories: Mapping[str, Path]

    def repository_root(self, repo: str) -> Path:
        """The folder of repository `repo` ("" is the main one). Raises KeyError if undeclared."""
        return self.root if repo == "" else self.repositories[repo]

    def repository_name(self, repo: str) -> str:
        """The name under which `repo` appears in execution paths."""
        return repo or self.name
