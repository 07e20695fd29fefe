"""What a rule's implementation is given: the target's attributes, and the means to declare actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TypeVar

from ..core.action import Action, Artifact, Imports, Preload, Resources
from ..core.diagnostics import BuildError, Diagnostic, Location
from ..core.label import Label, LabelSyntaxError, parse_label
from ..core.target import Target, Workspace
from .providers import DefaultInfo, Provider

P = TypeVar("P", bound=Provider)

# Linux takes at most 128 KiB in one argument of a command.
_LONGEST_ARGUMENT = 100_000


@dataclass(frozen=True)
class Dependency:
    """A target or source file as the one that depends on it sees it, in attribute `attribute` of `user`.

    `label` is as it was written (an alias keeps its own); `kind` is the name of its rule, "source
    file" or "generated file".
    """

    label: Label
    kind: str
    providers: Mapping[type[Provider], Provider]
    attribute: str
    user: Target

    @property
    def files(self) -> tuple[Artifact, ...]:
        """What building it gives: its DefaultInfo's files."""
        default = self.find(DefaultInfo)
        return default.files if default else ()

    def find(self, provider: type[P]) -> P | None:
        """What it offers of the type `provider`, or None."""
        return self.providers.get(provider)  # type: ignore[return-value]

    def provider(self, provider: type[P]) -> P:
        """What it offers of the type `provider`.

        Raises:
            BuildError: it offers no such thing, so it cannot stand in this attribute.
        """
        found = self.find(provider)
        if found is None:
            raise target_error(
                self.user,
                f"{self.label} cannot be used in `{self.attribute}` of {self.user.label}: "
                f"a {self.kind} does not provide {provider.__name__}",
                remedy=f"name targets in `{self.attribute}` that provide {provider.__name__}; "
                f"the attribute: {self.user.schema.all_attributes[self.attribute].doc}",
            )
        return found


def target_error(target: Target, message: str, *, notes: Iterable[str] = (), remedy: str | None = None) -> BuildError:
    """A mistake in `target`'s definition, told at the place of that definition."""
    excerpt = {"source_line": target.source_line, "span": len(target.schema.name)}
    return BuildError(Diagnostic(message, target.location, **excerpt, notes=tuple(notes), remedy=remedy))


class RuleContext:
    """The hands of a rule's implementation.

    `attr` has the target's attributes by name, as `Target.attributes` says, except that a label is
    a Dependency (a tuple of them for a list of labels, None for a label not given).
    A class because it collects, in `actions`, what the implementation declares.
    """

    def __init__(self, target: Target, workspace: Workspace, attr: SimpleNamespace):
        self.target = target
        self.attr = attr
        self.actions: list[Action] = []
        self._workspace = workspace

    @property
    def label(self) -> Label:
        return self.target.label

    @property
    def location(self) -> Location:
        return self.target.location

    @property
    def repository_path(self) -> str:
        """The folder of the target's repository in an execution root."""
        return repository_path(self._workspace, self.label)

    @property
    def package_path(self) -> str:
        """The folder of the target's package in an execution root."""
        return package_path(self._workspace, self.label)

    def declare_output(self, name: str) -> Artifact:
        """The file `name` (a relative path) in the target's package, to be made by one of its actions.

        Raises:
            BuildError: the name leaves the package's folder.
        """
        try:
            output = Artifact(f"{self.package_path}/{name}")
        except ValueError:
            raise self.error(
                f"output {name!r} of {self.label} is not a path in its package",
                remedy="write a relative path without '.', '..', '//' or a trailing '/'",
            ) from None
        return output

    def run(
        self,
        mnemonic: str,
        *,
        toolchain: str,
        argv: Sequence[str],
        inputs: Iterable[Artifact],
        outputs: Sequence[Artifact],
        environment: Mapping[str, str] | None = None,
        also: Sequence[str] = (),
        resources: Resources = Resources(),
        imports: Imports | None = None,
        preloads: Sequence[Preload] = (),
        keeps_for: Iterable[Artifact] = (),
    ) -> None:
        """Declare an action; the fields are Action's. An input given several times counts once."""
        self.actions.append(
            Action(
                mnemonic=mnemonic,
                toolchain=toolchain,
                argv=tuple(argv),
                inputs=tuple(dict.fromkeys(inputs)),
                outputs=tuple(outputs),
                environment=dict(environment or {}),
                also=tuple(dict.fromkeys(also)),
                resources=resources,
                owner=str(self.label),
                imports=imports,
                preloads=tuple(preloads),
                keeps_for=tuple(dict.fromkeys(keeps_for)),
            )
        )

    def write(self, name: str, text: str) -> Artifact:
        """Declare an output that holds `text`, and the action that writes it."""
        output = self.declare_output(name)
        pieces = [text[start : start + _LONGEST_ARGUMENT // 4] for start in range(0, len(text), _LONGEST_ARGUMENT // 4)]
        script = 'file=$1; shift; printf %s "$@" > "$file"'
        self.run(
            "Write",
            toolchain="shell",
            argv=("-c", script, "write", output.exec_path, *pieces),
            inputs=(),
            outputs=(output,),
        )
        return output

    def parse_label(self, text: str) -> Label:
        """The label that `text` means in the target's package. Raises BuildError where it is none."""
        try:
            return parse_label(
                text, repo=self.label.repo, package=self.label.package, main_repo=self._workspace.name
            )
        except LabelSyntaxError as error:
            raise self.error(str(error)) from None

    def full_name(self, label: Label) -> str:
        """`label` with its repository's name, the same from every workspace: fit for an action's argv and inputs."""
        return str(dataclasses.replace(label, repo=self._workspace.repository_name(label.repo)))

    def error(self, message: str, *, notes: Iterable[str] = (), remedy: str | None = None) -> BuildError:
        """A mistake in the target's definition, to be raised."""
        return target_error(self.target, message, notes=notes, remedy=remedy)


def repository_path(workspace: Workspace, label: Label) -> str:
    """The folder of `label`'s repository in an execution root."""
    return workspace.repository_name(label.repo)


def package_path(workspace: Workspace, label: Label) -> str:
    """The folder of `label`'s package in an execution root."""
    repository = repository_path(workspace, label)
    return f"{repository}/{label.package}" if label.package else repository
