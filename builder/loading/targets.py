"""Calls of rules → targets: attributes checked against the rule's schema, defaults filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.diagnostics import Diagnostic, nearest
from ..core.label import Label, LabelSyntaxError, parse_label
from ..core.rule import Attribute, AttributeType, RuleSchema
from ..core.target import GeneratedFile, Package, SourceFile, Target
from .conditions import Conditions
from .excerpt import call_diagnostic, call_location
from .interpreter import Call
from .packages import RawPackage
from .values import Unresolved, WrongValue, convert, empty_value, has_select, resolve_selects
from .visibility import PRIVATE, PUBLIC, parse_visibility


class TargetMaker:
    """Makes the targets of packages. Mistakes go to `diagnostics`."""

    def __init__(
        self,
        schemas: Mapping[str, RuleSchema],
        conditions: Conditions,
        selects: Sequence[tuple[Mapping[str, Any], str]],
        main_repo: str,
        diagnostics: list[Diagnostic],
    ):
        self._schemas = {name: (schema, schema.all_attributes) for name, schema in schemas.items()}
        self._conditions = conditions
        self._selects = selects
        self._main_repo = main_repo
        self._diagnostics = diagnostics
        self._mandatory = {
            name: [(key, attribute) for key, attribute in attributes.items() if attribute.mandatory]
            for name, (_, attributes) in self._schemas.items()
        }
        self._label_attributes = {
            name: [key for key, attribute in attributes.items() if attribute.is_label]
            for name, (_, attributes) in self._schemas.items()
        }
        self._defaults = {
            name: {a: self._default(attribute) for a, attribute in attributes.items()}
            for name, (_, attributes) in self._schemas.items()
        }

    def package(self, raw: RawPackage) -> Package:
        """The package with all of its targets that are well-formed, and the files that it exports or makes."""
        visibility, testonly = self._package_defaults(raw)
        parse = self._label_parser(raw)
        targets: dict[str, Target] = {}
        for name, call in raw.calls.items():
            target = self._target(raw, name, call, parse, visibility, testonly)
            if target is not None:
                targets[name] = target
        outputs = self._outputs(raw, targets)
        files = self._exported_files(raw)
        return Package(raw.repo, raw.name, Path(raw.folder, "BUILD"), targets, files, outputs)

    def _label_parser(self, raw: RawPackage) -> Callable[[str], Label]:
        """parse_label for texts in a package; most are written many times."""
        known: dict[str, Label] = {}

        def parse(text: str) -> Label:
            label = known.get(text)
            if label is None:
                label = parse_label(text, repo=raw.repo, package=raw.name, main_repo=self._main_repo)
                known[text] = label
            return label

        return parse

    def _default(self, attribute: Attribute) -> Any:
        if attribute.default is None:
            return empty_value(attribute)
        return convert(attribute, attribute.default, lambda text: parse_label(text, main_repo=self._main_repo))

    def _target(
        self,
        raw: RawPackage,
        name: str,
        call: Call,
        parse: Callable[[str], Label],
        default_visibility: tuple[str, ...],
        default_testonly: bool,
    ) -> Target | None:
        """The target that a call makes, or None: with its mistakes reported, all of them."""
        schema, attributes = self._schemas[call.name]
        before = len(self._diagnostics)
        values = dict(self._defaults[call.name])
        values["testonly"] = default_testonly or schema.is_test
        visibility = default_visibility
        for key, value in call.kwargs.items():
            attribute = attributes.get(key)
            if attribute is None or key.startswith("_"):
                self._diagnostics.append(_unknown_attribute(raw, call, schema, key))
                continue
            try:
                if has_select(value):
                    value = self._resolved(raw, call, key, attribute, value)
                if value is None:
                    continue
                converted = convert(attribute, value, parse)
            except WrongValue as error:
                self._report(raw, call, f"'{key}' of {call.name} '{name}': {error}", key, error)
                continue
            except Unresolved:
                continue
            if key == "visibility":
                visibility = self._visibility(raw, call, converted)
            values[key] = converted
        for key, attribute in self._mandatory[call.name]:
            if call.kwargs.get(key) is None:
                self._diagnostics.append(_missing_attribute(raw, call, name, key, attribute))
        values["visibility"] = visibility
        if call.name == "config_setting":
            self._check_config_setting(raw, call, values)
        if len(self._diagnostics) > before:
            return None
        dependencies: dict[Label, None] = {}
        for key in self._label_attributes[call.name]:
            value = values[key]
            if isinstance(value, tuple):
                dependencies.update(dict.fromkeys(value))
            elif value is not None:
                dependencies[value] = None
        label = Label(raw.repo, raw.name, name)
        location = call_location(raw.source, call)
        line = raw.source.lines[location.line - 1]
        return Target(label, schema, values, visibility, location, tuple(dependencies), line)

    def _resolved(self, raw: RawPackage, call: Call, key: str, attribute: Attribute, value: Any) -> Any:
        """A value without selects. Raises Unresolved, with the reason reported, or WrongValue."""
        if not attribute.configurable:
            raise WrongValue("select() cannot be used in this attribute", remedy="write the value itself")

        def choose(number: int) -> Any:
            if number >= len(self._selects):
                raise WrongValue("a control character in a string")
            branches, no_match_error = self._selects[number]
            found, chosen = self._conditions.choose(branches, no_match_error, raw, call, key, self._diagnostics)
            if not found:
                raise Unresolved
            return chosen

        return resolve_selects(value, choose)

    def _check_config_setting(self, raw: RawPackage, call: Call, values: Mapping[str, Any]) -> None:
        unknown = [key for key in values.get("values") or {} if key != "config"]
        if unknown or not values.get("values"):
            message = f"config_setting knows only 'config', not '{unknown[0]}'" if unknown else "an empty condition"
            remedy = 'write values = {"config": "name"}, which --config name makes true'
            error = WrongValue(message, unknown[0] if unknown else None, remedy)
            self._report(raw, call, message, "values", error)

    def _visibility(self, raw: RawPackage, call: Call, entries: Iterable[str]) -> tuple[str, ...]:
        found = []
        for text in entries:
            try:
                found.append(parse_visibility(text, raw.repo, raw.name, self._main_repo))
            except LabelSyntaxError as error:
                near = nearest(text, (PUBLIC, PRIVATE))
                remedy = f'write "{PUBLIC}", "{PRIVATE}", "//package:__pkg__" or "//package:__subpackages__"'
                self._diagnostics.append(
                    call_diagnostic(
                        raw.source,
                        call,
                        str(error),
                        "visibility" if call.name != "package" else "default_visibility",
                        text,
                        notes=(f"did you mean '{near}'?",) if near else (),
                        remedy=remedy,
                    )
                )
        return tuple(found)

    def _package_defaults(self, raw: RawPackage) -> tuple[tuple[str, ...], bool]:
        """The default visibility and testonly of a package."""
        call = raw.defaults_call
        if call is None:
            return (PRIVATE,), False
        visibility: tuple[str, ...] = (PRIVATE,)
        entries = raw.defaults.get("default_visibility")
        if isinstance(entries, (list, tuple)) and all(isinstance(entry, str) for entry in entries):
            visibility = self._visibility(raw, call, entries)
        elif entries is not None:
            message = "'default_visibility' must be a list of strings"
            self._report(raw, call, message, "default_visibility", WrongValue(message))
        testonly = raw.defaults.get("default_testonly", False)
        if not isinstance(testonly, (bool, int)):
            message = "'default_testonly' must be True or False"
            self._report(raw, call, message, "default_testonly", WrongValue(message))
        return visibility, bool(testonly)

    def _outputs(self, raw: RawPackage, targets: Mapping[str, Target]) -> dict[str, GeneratedFile]:
        """The files that the targets' OUTPUT_LIST attributes name, each by one target."""
        outputs: dict[str, GeneratedFile] = {}
        for name, target in targets.items():
            for key, attribute in target.schema.attributes.items():
                if attribute.type is not AttributeType.OUTPUT_LIST:
                    continue
                for output in target.attributes[key]:
                    call = raw.calls[name]
                    other = outputs.get(output)
                    if other is not None or (output in raw.calls and output != name):
                        what = (
                            f"{other.generator} makes it too" if other else f"a {raw.calls[output].name} has that name"
                        )
                        remedy = "rename one of the two"
                        self._report(raw, call, f"output '{output}': {what}", key, WrongValue("", output, remedy))
                    elif output != name:
                        outputs[output] = GeneratedFile(target.label.sibling(output), target.label)
        return outputs

    def _exported_files(self, raw: RawPackage) -> dict[str, SourceFile]:
        files = {}
        for name, (visibility, call) in raw.exported.items():
            entries: tuple[str, ...] = (PUBLIC,)
            if isinstance(visibility, (list, tuple)) and all(isinstance(entry, str) for entry in visibility):
                entries = self._visibility(raw, call, visibility)
            files[name] = SourceFile(Label(raw.repo, raw.name, name), Path(raw.folder, name), entries)
        return files

    def _report(self, raw: RawPackage, call: Call, message: str, key: str, error: WrongValue) -> None:
        self._diagnostics.append(call_diagnostic(raw.source, call, message, key, error.text, remedy=error.remedy))


def _unknown_attribute(raw: RawPackage, call: Call, schema: RuleSchema, key: str) -> Diagnostic:
    attributes = {n: a for n, a in schema.all_attributes.items() if not n.startswith("_")}
    near = nearest(key, attributes)
    if near:
        notes, remedy = (f"did you mean '{near}'? {attributes[near].doc}",), f"write {near} = …"
    else:
        notes, remedy = (f"it has {', '.join(sorted(attributes))}",), "remove the attribute"
    return call_diagnostic(raw.source, call, f"{call.name} has no attribute '{key}'", key, notes=notes, remedy=remedy)


def _missing_attribute(raw: RawPackage, call: Call, name: str, key: str, attribute: Attribute) -> Diagnostic:
    return call_diagnostic(
        raw.source,
        call,
        f"{call.name} '{name}' needs '{key}'",
        notes=(f"{key} ({attribute.type.value}): {attribute.doc}",),
        remedy=f"add {key} = …",
    )
