"""Packages as their BUILD files call them into being: calls of rules, before any meaning is given to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core.diagnostics import BuildError, Diagnostic, nearest
from ..core.label import LabelSyntaxError, check_package_name, check_target_name
from ..core.target import Workspace
from .excerpt import call_diagnostic, evaluation_diagnostics
from .files import BUILD_FILE, Files
from .glob import glob
from .interpreter import Call, Execution, Interpreter
from .modules import Modules
from .source import Source, Statement, read_source

# After so many statements of one BUILD file that cannot be evaluated, the rest is not told.
_MOST_FAILURES = 20

BUILTINS = ("glob", "select", "package", "exports_files")

_NOT_IN_BUILD_FILES = {
    "def": "functions cannot be defined in a BUILD file",
    "for": "a BUILD file has no loops: it is a list of what there is",
    "if": "a BUILD file has no conditions: it is a list of what there is",
    "while": "there are no while loops",
}


class NoPackage(LookupError):
    """A package that is not there; to be told where its name stands."""

    def __init__(self, message: str, *, notes: tuple[str, ...] = (), remedy: str | None = None):
        super().__init__(message)
        self.message = message
        self.notes = notes
        self.remedy = remedy


@dataclass
class RawPackage:
    """What a BUILD file called.

    `unevaluated` are the texts of statements that could not be evaluated, which is reported: empty
    where such a statement may make more than the target that it spells out. `calls` are the calls
    of rules by target name; `exported` maps file names to the visibility that exports_files() gives
    them (None for the default) and its call; `defaults` are the arguments of package().
    """

    repo: str
    name: str
    folder: str
    source: Source
    calls: dict[str, Call] = field(default_factory=dict)
    exported: dict[str, tuple[object, Call]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    defaults_call: Call | None = None
    unevaluated: list[str] = field(default_factory=list)

    def may_define(self, name: str) -> bool:
        """Whether `name` may be missing only because of a mistake that is reported already."""
        return name in self.calls or any(not text or name in text for text in self.unevaluated)

    @property
    def title(self) -> str:
        return f"{'@' + self.repo if self.repo else ''}//{self.name}"


class Packages:
    """The packages that a load has evaluated, by repository and name. Mistakes go to `diagnostics`."""

    def __init__(
        self,
        workspace: Workspace,
        files: Files,
        interpreter: Interpreter,
        rules: Iterable[str],
        diagnostics: list[Diagnostic],
    ):
        self.workspace = workspace
        self.files = files
        self._interpreter = interpreter
        self._rules = tuple(rules)
        self._diagnostics = diagnostics
        self._modules = Modules(workspace, files, interpreter, (*BUILTINS, *self._rules))
        self._packages: dict[tuple[str, str], RawPackage] = {}
        self._missing: dict[tuple[str, str], NoPackage] = {}

    def __iter__(self) -> Iterable[RawPackage]:
        return iter(list(self._packages.values()))

    def get(self, repo: str, name: str) -> RawPackage:
        """The package, evaluated now if it was not yet.

        Raises:
            NoPackage: there is none of that name.
        """
        key = (repo, name)
        if key in self._missing:
            raise self._missing[key]
        if key not in self._packages:
            try:
                folder = self.folder(repo, name)
            except NoPackage as error:
                self._missing[key] = error
                raise
            self._packages[key] = self._evaluate(repo, name, folder)
        return self._packages[key]

    def folder(self, repo: str, name: str) -> str:
        """The folder of a package. Raises NoPackage where there is none."""
        if repo and repo not in self.workspace.repositories:
            near = nearest(repo, self.workspace.repositories)
            raise NoPackage(
                f"there is no repository '@{repo}'",
                notes=(f"did you mean '@{near}'?",) if near else (),
                remedy=f'declare it in WORKSPACE: local_repository(name = "{repo}", path = "…")',
            )
        root = str(self.workspace.repository_root(repo))
        folder = f"{root}/{name}" if name else root
        title = f"{'@' + repo if repo else ''}//{name}"
        self._check_not_nested(root, name, title)
        if self.files.is_package(folder):
            return folder
        near = self._nearest_package(root, name)
        notes = (f"did you mean '{'@' + repo if repo else ''}//{near}'?",) if near is not None else ()
        if self.files.is_folder(folder):
            where = f"{name}/{BUILD_FILE}" if name else BUILD_FILE
            raise NoPackage(
                f"{title} is not a package: there is no file {where}", notes=notes, remedy=f"create {where}"
            )
        raise NoPackage(f"there is no package {title}", notes=notes, remedy="mend the label, or create the package")

    def _check_not_nested(self, root: str, name: str, title: str) -> None:
        path = ""
        for segment in name.split("/") if name else ():
            path = f"{path}/{segment}" if path else segment
            if self.files.is_workspace(f"{root}/{path}"):
                raise NoPackage(
                    f"{title} is in another workspace: there is a file {path}/WORKSPACE",
                    remedy=f"declare {path} as a local_repository in WORKSPACE, and write @its_name//…",
                )

    def _nearest_package(self, root: str, name: str) -> str | None:
        """A package with a similar name: beside where this one should be."""
        parent, _, last = name.rpartition("/")
        folder = f"{root}/{parent}" if parent else root
        entries = self.files.entries(folder) or {}
        beside = [
            entry for entry, is_folder in entries.items() if is_folder and self.files.is_package(f"{folder}/{entry}")
        ]
        near = nearest(last, beside)
        return f"{parent}/{near}" if parent and near else near

    def _evaluate(self, repo: str, name: str, folder: str) -> RawPackage:
        path = f"{folder}/{BUILD_FILE}"
        display = path if repo else f"{name}/{BUILD_FILE}".lstrip("/")
        try:
            check_package_name(name, f"//{name}")
            source = read_source(display, self.files.read(path))
        except LabelSyntaxError as error:
            self._diagnostics.append(Diagnostic(str(error)))
            return RawPackage(repo, name, folder, Source(display, ""), unevaluated=[""])
        except BuildError as error:
            self._diagnostics.extend(error.diagnostics)
            return RawPackage(repo, name, folder, Source(display, ""), unevaluated=[""])
        package = RawPackage(repo, name, folder, source)
        for call in self._execute(package).calls:
            if call.name == "package":
                self._set_defaults(package, call)
            elif call.name == "exports_files":
                self._export(package, call)
            else:
                self._add_target(package, call)
        return package

    def _execute(self, package: RawPackage) -> Execution:
        """Execute a BUILD file. What cannot be evaluated is reported and left out, so that the rest is checked too."""
        source = package.source
        loaded = self._modules.load_for(source, package.repo, package.name, self._diagnostics)
        known = (*BUILTINS, *self._rules, *loaded.names, *(n for s in source.statements for n in s.binds))
        lost = set(loaded.lost)
        skip: set[int] = set()
        for number, statement in enumerate(source.statements):
            if statement.keyword in _NOT_IN_BUILD_FILES:
                self._diagnostics.append(_not_in_build_file(source, statement))
                package.unevaluated.append("")
                skip.add(number)
                lost.update(statement.binds)

        def answer_glob(include: tuple[str, ...], exclude: tuple[str, ...], allow_empty: bool) -> list[str]:
            return glob(self.files, package.folder, include, exclude, allow_empty)

        while True:
            execution = self._interpreter.execute_build_file(source, loaded.names, answer_glob, skip)
            self._diagnostics += evaluation_diagnostics(
                source,
                execution.problems,
                known,
                "a BUILD file",
                lost=lost,
                find_source=self._modules.find_source,
            )
            if any(p.kind == "syntax" for p in execution.problems):
                package.unevaluated.append("")
            lines = {
                p.frames[0].line for p in execution.problems if p.kind != "syntax" and p.frames[0].file == source.name
            }
            failed = {_statement_at(source, line) for line in lines} - skip
            for statement in (source.statements[number] for number in failed):
                is_rule = statement.keyword in self._rules and statement.keyword not in loaded.names
                package.unevaluated.append(source.text[statement.start : statement.end] if is_rule else "")
            if not failed or len(skip) > _MOST_FAILURES:
                return execution
            skip |= failed
            lost.update(name for number in failed for name in source.statements[number].binds)

    def _set_defaults(self, package: RawPackage, call: Call) -> None:
        known = ("default_visibility", "default_testonly")
        if package.defaults_call is not None:
            self._report(package, call, "package() is called twice", remedy="keep one call, at the top of the file")
        for argument in call.kwargs:
            if argument not in known:
                near = nearest(argument, known)
                notes = (f"did you mean '{near}'?" if near else f"it takes {' and '.join(known)}",)
                self._report(package, call, f"package() has no argument '{argument}'", argument, notes=notes)
        if call.args:
            self._report(package, call, "package() takes its arguments by name")
        if package.calls:
            self._report(package, call, "package() comes after a target", remedy="move it to the top of the file")
        package.defaults = {key: value for key, value in call.kwargs.items() if key in known}
        package.defaults_call = call

    def _export(self, package: RawPackage, call: Call) -> None:
        arguments = dict(zip(("srcs", "visibility"), call.args), **call.kwargs)
        unknown = [argument for argument in arguments if argument not in ("srcs", "visibility", "licenses")]
        names = arguments.get("srcs")
        if unknown:
            self._report(package, call, f"exports_files() has no argument '{unknown[0]}'", unknown[0])
        elif not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            remedy = 'write exports_files(["file", …])'
            self._report(package, call, "exports_files() takes a list of file names", remedy=remedy)
        else:
            package.exported.update((name, (arguments.get("visibility"), call)) for name in names)

    def _add_target(self, package: RawPackage, call: Call) -> None:
        name = call.kwargs.get("name")
        if call.args:
            remedy = f'write {call.name}(name = "…", …)'
            self._report(package, call, f"{call.name}() takes its attributes by name", remedy=remedy)
        elif name is None:
            self._report(package, call, f"{call.name}() needs 'name'", remedy='add name = "…"')
        elif not isinstance(name, str):
            self._report(package, call, f"'name' must be a string, not {name!r:.60}", "name")
        else:
            try:
                check_target_name(name, name)
            except LabelSyntaxError:
                remedy = "use letters, digits, and characters such as '_', '-', '.'; no '..' and no '/' at an end"
                self._report(package, call, f"'{name}' cannot name a target", "name", name, remedy=remedy)
                return
            first = package.calls.get(name)
            if first is None:
                package.calls[name] = call
                return
            line = package.source.statements[first.statement].line
            self._report(
                package,
                call,
                f"there are two targets '{name}' in {package.title}",
                "name",
                name,
                notes=(f"the first is a {first.name} at {package.source.name}:{line}",),
                remedy="rename one of the two",
            )

    def _report(
        self,
        package: RawPackage,
        call: Call,
        message: str,
        attribute: str | None = None,
        text: str | None = None,
        *,
        notes: Iterable[str] = (),
        remedy: str | None = None,
    ) -> None:
        self._diagnostics.append(
            call_diagnostic(package.source, call, message, attribute, text, notes=notes, remedy=remedy)
        )


def _statement_at(source: Source, line: int) -> int:
    """The number of the statement that a line belongs to."""
    found = 0
    for number, statement in enumerate(source.statements):
        if statement.line > line:
            break
        found = number
    return found


def _not_in_build_file(source: Source, statement: Statement) -> Diagnostic:
    return source.diagnostic(
        _NOT_IN_BUILD_FILES[statement.keyword],
        statement.start,
        statement.start + len(statement.keyword),
        remedy="put it into a .bzl file, as a macro, and load() that",
    )
