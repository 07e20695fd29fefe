"""Edges: what targets name in their attributes of labels, and whether they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.diagnostics import Diagnostic, Location, nearest
from ..core.label import Label
from ..core.rule import Attribute, RuleSchema
from ..core.target import GeneratedFile, Package, SourceFile, Target
from .excerpt import call_diagnostic
from .nodes import Node, Nodes
from .packages import NoPackage, RawPackage
from .visibility import is_visible


class Edges:
    """The dependencies of targets; whatever is wrong with them goes to `diagnostics`, at the line that names them."""

    def __init__(self, nodes: Nodes, schemas: Mapping[str, RuleSchema], diagnostics: list[Diagnostic]):
        self._nodes = nodes
        self._diagnostics = diagnostics
        self._label_attributes = {
            schema.name: [(name, a) for name, a in schema.all_attributes.items() if a.is_label]
            for schema in schemas.values()
        }

    def dependencies(self, target: Target) -> Iterator[Label]:
        """The dependencies of a target that are there; whatever is wrong with them is reported."""
        for name, attribute in self._label_attributes[target.schema.name]:
            value = target.attributes[name]
            for label in (value,) if isinstance(value, Label) else value or ():
                if self._check_edge(target, name, attribute, label):
                    yield label

    def _check_edge(self, target: Target, name: str, attribute: Attribute, label: Label) -> bool:
        """Whether a dependency exists, reported if not; reports what else is wrong with it, too."""
        try:
            node = self._nodes.find(label)
        except NoPackage as error:
            self._report(target, name, label, error.message, error.notes, error.remedy)
            return False
        if node is None:
            raw, package = self._nodes.package(label.repo, label.package)
            if not raw.may_define(label.name):
                self._diagnostics.append(self._missing(target, name, label, raw, package))
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
        self, target: Target, name: str, label: Label, node: Node
    ) -> None:
        owner = self._nodes.find(node.generator) if isinstance(node, GeneratedFile) else node
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
        inner = self._nodes.inner_package(raw, label.name)
        if inner is not None:
            inner_package = f"{label.package}/{inner}".lstrip("/")
            right = Label(label.repo, inner_package, label.name[len(inner) + 1 :])
            missing = Diagnostic(
                f"{label} crosses into the package //{inner_package}",
                remedy=f'write "{right}", and export the file there',
            )
        else:
            missing = no_such_target(label, raw, package, self._nodes.files.entries(raw.folder), user=target.label)
        return self._at(target, name, label, missing.message, missing.notes, missing.remedy)

    def cycle(self, cycle: Sequence[Label]) -> None:
        """Report a cycle of dependencies, at its first target."""
        first = self._nodes.find(cycle[0])
        shown = " → ".join(str(label) for label in cycle)
        message = f"dependency cycle: {shown}"
        remedy = "break the cycle: move what both sides need into a target of its own"
        if not isinstance(first, Target):
            self._diagnostics.append(Diagnostic(message, remedy=remedy))
            return
        attribute = next(
            (n for n, a in first.schema.all_attributes.items() if a.is_label and _names(first.attributes[n], cycle[1])),
            "name",
        )
        self._report(first, attribute, cycle[1], message, (), remedy)

    def _report(
        self,
        target: Target,
        attribute: str,
        label: Label,
        message: str,
        notes: Sequence[str] = (),
        remedy: str | None = None,
    ) -> None:
        self._diagnostics.append(self._at(target, attribute, label, message, notes, remedy))

    def _at(
        self, target: Target, attribute: str, label: Label, message: str, notes: Sequence[str], remedy: str | None
    ) -> Diagnostic:
        """A mistake where a target names a label."""
        raw, _ = self._nodes.package(target.label.repo, target.label.package)
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


def no_such_target(
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
