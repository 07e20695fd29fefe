"""select(): which branch of it holds, by the configurations that the command line names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.diagnostics import Diagnostic, nearest
from ..core.label import Label, LabelSyntaxError, parse_label
from .excerpt import call_diagnostic
from .interpreter import Call
from .packages import NoPackage, Packages, RawPackage

DEFAULT = "//conditions:default"
_CONFIG_SETTING = "config_setting"
_LONGEST_ALIAS_CHAIN = 20


class Conditions:
    """Which config_settings hold. `configs` are the names given with --config."""

    def __init__(self, packages: Packages, configs: Sequence[str]):
        self._packages = packages
        self._configs = frozenset(configs)
        self._known: dict[Label, bool] = {}

    def choose(
        self,
        branches: Mapping[str, Any],
        no_match_error: str,
        package: RawPackage,
        call: Call,
        attribute: str,
        diagnostics: list[Diagnostic],
    ) -> tuple[bool, Any]:
        """Whether a branch of a select in `attribute` holds, and its value; where none does, that is reported."""
        holding = []
        wrong = len(diagnostics)
        for key, value in branches.items():
            if key != DEFAULT and self._holds(key, package, call, attribute, diagnostics):
                holding.append((key, value))
        if len(diagnostics) > wrong:
            return False, None
        if holding:
            if all(value == holding[0][1] for _, value in holding):
                return True, holding[0][1]
            keys = " and ".join(f"'{key}'" for key, _ in holding)
            message = f"two conditions of a select() hold: {keys}"
            diagnostics.append(
                call_diagnostic(
                    package.source,
                    call,
                    message,
                    attribute,
                    holding[1][0],
                    remedy="make conditions that exclude each other, or give both branches the same value",
                )
            )
            return False, None
        if DEFAULT in branches:
            return True, branches[DEFAULT]
        given = ", ".join(f"--config {name}" for name in sorted(self._configs)) or "no --config"
        diagnostics.append(
            call_diagnostic(
                package.source,
                call,
                no_match_error or f"no condition of the select() in '{attribute}' holds",
                attribute,
                notes=(f"the command line gives {given}; the conditions are {', '.join(branches)}",),
                remedy=f'add a branch "{DEFAULT}": …',
            )
        )
        return False, None

    def _holds(self, key: str, package: RawPackage, call: Call, attribute: str, diagnostics: list[Diagnostic]) -> bool:
        def mistake(message: str, notes: tuple[str, ...] = (), remedy: str | None = None) -> bool:
            diagnostics.append(
                call_diagnostic(package.source, call, message, attribute, key, notes=notes, remedy=remedy)
            )
            return False

        remedy = f'name a config_setting target, or "{DEFAULT}"'
        try:
            label = parse_label(key, repo=package.repo, package=package.name, main_repo=self._packages.workspace.name)
        except LabelSyntaxError as error:
            return mistake(str(error), remedy=remedy)
        if label in self._known:
            return self._known[label]
        try:
            owner, setting = self._find(label)
        except NoPackage as error:
            return mistake(error.message, error.notes, error.remedy)
        if setting is None:
            if owner.may_define(label.name):
                return False
            near = nearest(label.name, (n for n, c in owner.calls.items() if c.name == _CONFIG_SETTING))
            return mistake(
                f"there is no target {label}", (f"did you mean '{label.sibling(near)}'?",) if near else (), remedy
            )
        if setting.name != _CONFIG_SETTING:
            return mistake(f"{label} is a {setting.name}, not a config_setting", remedy=remedy)
        self._known[label] = all(name in self._configs for name in config_names(setting))
        return self._known[label]

    def _find(self, label: Label) -> tuple[RawPackage, Call | None]:
        """The call that made a target, through aliases."""
        for _ in range(_LONGEST_ALIAS_CHAIN):
            package = self._packages.get(label.repo, label.package)
            call = package.calls.get(label.name)
            if call is None or call.name != "alias":
                break
            try:
                label = parse_label(
                    str(call.kwargs.get("actual")),
                    repo=package.repo,
                    package=package.name,
                    main_repo=self._packages.workspace.name,
                )
            except LabelSyntaxError:
                break
        return package, call


def config_names(setting: Call) -> Iterator[str]:
    """The configurations that a config_setting requires."""
    values = setting.kwargs.get("values")
    if isinstance(values, dict) and isinstance(values.get("config"), str):
        yield values["config"]


def unknown_configs(packages: Packages, configs: Sequence[str]) -> list[Diagnostic]:
    """A diagnostic for each of `configs` that no config_setting of the evaluated packages mentions."""
    mentioned = {
        name
        for package in packages
        for call in package.calls.values()
        if call.name == _CONFIG_SETTING
        for name in config_names(call)
    }
    diagnostics = []
    for name in configs:
        if name not in mentioned:
            near = nearest(name, mentioned)
            has = ", ".join(sorted(mentioned)) or "none"
            diagnostics.append(
                Diagnostic(
                    f"--config {name}: no config_setting in the workspace mentions '{name}'",
                    notes=(f"did you mean '{near}'?" if near else f"mentioned are: {has}",),
                    remedy=f'declare config_setting(name = "{name}", values = {{"config": "{name}"}}), for select()',
                )
            )
    return diagnostics
