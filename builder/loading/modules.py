"""load(): .bzl files, each executed once, before those that load it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core.diagnostics import BuildError, Diagnostic, nearest
from ..core.label import Label, LabelSyntaxError, parse_label
from ..core.target import Workspace
from .excerpt import evaluation_diagnostics
from .files import BUILD_FILE, Files
from .interpreter import Interpreter
from .source import Source, Statement, Token, read_source

# How many files may load one another in a chain. Real ones have fewer than ten.
_LONGEST_CHAIN = 100


@dataclass(frozen=True)
class LoadStatement:
    """`load("module", "name", local = "other")`. `symbols` are (local name, exported name, its token)."""

    module: Token
    symbols: tuple[tuple[str, str, Token], ...]


@dataclass(frozen=True)
class Loaded:
    """What the load()s of a file bind: local names, to what the interpreter calls their values.

    `lost` are local names that should be there and are not, because of mistakes that are reported already.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Module:
    """An executed .bzl file. `failed` ones may lack names, and that was reported."""

    source: Source | None
    exports: Mapping[str, str]
    failed: bool


class Modules:
    """All .bzl files that a load has executed, by label."""

    def __init__(self, workspace: Workspace, files: Files, interpreter: Interpreter, builtins: Iterable[str]):
        self._workspace = workspace
        self._files = files
        self._interpreter = interpreter
        self._builtins = tuple(builtins)
        self._modules: dict[Label, Module] = {}
        self._chain: list[Label] = []
        self._sources: dict[str, Source] = {}

    def find_source(self, name: str) -> Source | None:
        """The text of a .bzl file that was read, by the name that messages have for it."""
        return self._sources.get(name)

    def load_for(self, source: Source, repo: str, package: str, diagnostics: list[Diagnostic]) -> Loaded:
        """Execute what the load()s of a file name, and say what they bind. Appends to `diagnostics`."""
        names: dict[str, str] = {}
        lost: set[str] = set()
        for statement in source.statements:
            if statement.keyword != "load":
                continue
            try:
                load = parse_load(source, statement)
            except BuildError as error:
                diagnostics.extend(error.diagnostics)
                lost.update(_string_values(source, statement))
                continue
            module = self._module_of(source, load, repo, package, diagnostics)
            for local, exported, token in load.symbols:
                if local in names or local in lost:
                    diagnostics.append(_bound_twice(source, token, local))
                elif module is not None and exported in module.exports:
                    names[local] = module.exports[exported]
                else:
                    lost.add(local)
                    if module is not None and not module.failed:
                        diagnostics.append(_no_such_symbol(source, load, token, exported, module))
        for statement in source.statements:
            for name in statement.binds:
                if name in names and statement.keyword in (name, "def"):
                    diagnostics.append(_rebound(source, statement, name))
        return Loaded(names, frozenset(lost))

    def _module_of(
        self, source: Source, load: LoadStatement, repo: str, package: str, diagnostics: list[Diagnostic]
    ) -> Module | None:
        """The module that a load() names, executed; None where there is none, which is reported."""
        text = load.module.value or ""
        try:
            label = self._label(source, load.module, text, repo, package)
        except BuildError as error:
            diagnostics.extend(error.diagnostics)
            return None
        if label in self._chain:
            chain = [*self._chain[self._chain.index(label) :], label]
            diagnostics.append(
                source.diagnostic(
                    f"load cycle: {' → '.join(str(link) for link in chain)}",
                    load.module.start,
                    load.module.end,
                    remedy="move what both files need into a third one, which loads neither",
                )
            )
            return None
        if label not in self._modules:
            if len(self._chain) >= _LONGEST_CHAIN:
                message = f"more than {_LONGEST_CHAIN} files load one another in a chain"
                diagnostics.append(source.diagnostic(message, load.module.start, load.module.end))
                return None
            self._chain.append(label)
            self._modules[label] = self._execute(label, diagnostics)
            self._chain.pop()
        return self._modules[label]

    def _label(self, source: Source, token: Token, text: str, repo: str, package: str) -> Label:
        """The label of an existing .bzl file."""

        def mistake(message: str, remedy: str | None = None, notes: tuple[str, ...] = ()) -> BuildError:
            return BuildError(source.diagnostic(message, token.start, token.end, notes=notes, remedy=remedy))

        try:
            label = parse_label(text, repo=repo, package=package, main_repo=self._workspace.name)
        except LabelSyntaxError as error:
            raise mistake(str(error), 'write "//package:file.bzl", or ":file.bzl" for one in this package') from None
        if not label.name.endswith(".bzl"):
            raise mistake(f"'{text}' cannot be loaded: it is not a .bzl file", "name a file that ends in .bzl")
        if label.repo and label.repo not in self._workspace.repositories:
            near = nearest(label.repo, self._workspace.repositories)
            raise mistake(
                f"there is no repository '@{label.repo}'",
                f'declare it in WORKSPACE: local_repository(name = "{label.repo}", path = "…")',
                (f"did you mean '@{near}'?",) if near else (),
            )
        folder = self._folder(label)
        if self._files.is_file(f"{folder}/{label.name}"):
            inner = label.name.split("/")[:-1]
            for depth in range(len(inner), 0, -1):
                part = "/".join(inner[:depth])
                if self._files.is_package(f"{folder}/{part}"):
                    right = f"//{label.package}/{part}".replace("///", "//") + f":{label.name[len(part) + 1 :]}"
                    raise mistake(f"'{text}' crosses into the package {right.partition(':')[0]}", f'write "{right}"')
            if not self._files.is_package(folder):
                raise mistake(
                    f"'{text}' cannot be loaded: //{label.package} is not a package",
                    f"add a file {BUILD_FILE} to that folder; it may be empty",
                )
            return label
        near = nearest(label.name, (n for n in self._files.entries(folder) or {} if n.endswith(".bzl")))
        raise mistake(
            f"'{text}' cannot be loaded: there is no file {label.name} in //{label.package}",
            "create the file, or mend the label",
            (f"did you mean '{label.sibling(near)}'?",) if near else (),
        )

    def _folder(self, label: Label) -> str:
        root = str(self._workspace.repository_root(label.repo))
        return f"{root}/{label.package}" if label.package else root

    def _execute(self, label: Label, diagnostics: list[Diagnostic]) -> Module:
        before = len(diagnostics)
        path = f"{self._folder(label)}/{label.name}"
        name = path if label.repo else f"{label.package}/{label.name}".lstrip("/")
        try:
            source = read_source(name, self._files.read(path))
        except BuildError as error:
            diagnostics.extend(error.diagnostics)
            return Module(None, {}, failed=True)
        self._sources[name] = source
        loaded = self.load_for(source, label.repo, label.package, diagnostics)
        execution, exports = self._interpreter.execute_module(source, loaded.names)
        known = (*self._builtins, *loaded.names, *(n for s in source.statements for n in s.binds))
        diagnostics += evaluation_diagnostics(
            source, execution.problems, known, "a .bzl file", lost=loaded.lost, find_source=self.find_source
        )
        return Module(source, exports, failed=bool(execution.problems) or len(diagnostics) > before)


def parse_load(source: Source, statement: Statement) -> LoadStatement:
    """The parts of a load statement.

    Raises:
        BuildError: it has something other than literal strings.
    """
    tokens = [t for t in source.tokens(statement.start, statement.end) if t.text != ";"]
    if len(tokens) < 3 or tokens[1].text != "(" or tokens[-1].text != ")":
        raise _not_a_load(source, tokens[0])
    arguments = tokens[2:-1]
    strings: list[tuple[str | None, Token]] = []
    position = 0
    while position < len(arguments):
        local = None
        if arguments[position].kind == "name" and [t.text for t in arguments[position + 1 : position + 2]] == ["="]:
            local = arguments[position].text
            position += 2
        if position >= len(arguments) or arguments[position].value is None:
            raise _not_a_load(source, arguments[min(position, len(arguments) - 1)])
        strings.append((local, arguments[position]))
        position += 1
        if position < len(arguments):
            if arguments[position].text != ",":
                raise _not_a_load(source, arguments[position])
            position += 1
    if not strings or strings[0][0] is not None:
        raise _not_a_load(source, tokens[0])
    if len(strings) == 1:
        token = strings[0][1]
        raise BuildError(
            source.diagnostic(
                "this load() names nothing to load", token.start, token.end, remedy='add names: load("…", "name")'
            )
        )
    symbols = []
    for local, token in strings[1:]:
        exported = token.value or ""
        if not exported.isidentifier() or not exported.isascii():
            raise BuildError(source.diagnostic(f"'{exported}' is not a name", token.start, token.end))
        if exported.startswith("_"):
            raise BuildError(
                source.diagnostic(
                    f"'{exported}' is private to its file, as all names that begin with '_'",
                    token.start,
                    token.end,
                    remedy="load a public name, or rename it where it is defined",
                )
            )
        symbols.append((local or exported, exported, token))
    return LoadStatement(strings[0][1], tuple(symbols))


def _not_a_load(source: Source, token: Token) -> BuildError:
    return BuildError(
        source.diagnostic(
            "load() takes literal strings only: a .bzl file, then the names to load from it",
            token.start,
            token.end,
            remedy='write load("//package:file.bzl", "name", local_name = "other_name")',
        )
    )


def _string_values(source: Source, statement: Statement) -> set[str]:
    """Every name that a load statement may have meant to bind."""
    tokens = list(source.tokens(statement.start, statement.end))
    return {t.value for t in tokens if t.value} | {t.text for t in tokens if t.kind == "name"}


def _bound_twice(source: Source, token: Token, local: str) -> Diagnostic:
    return source.diagnostic(
        f"'{local}' is loaded twice", token.start, token.end, remedy=f'give one another name: my_{local} = "{local}"'
    )


def _rebound(source: Source, statement: Statement, name: str) -> Diagnostic:
    return source.diagnostic(
        f"'{name}' is loaded, and cannot be defined again",
        statement.start,
        statement.start + len(statement.keyword),
        remedy="rename one of the two",
    )


def _no_such_symbol(source: Source, load: LoadStatement, token: Token, exported: str, module: Module) -> Diagnostic:
    near = nearest(exported, module.exports)
    has = ", ".join(sorted(module.exports)) or "nothing"
    return source.diagnostic(
        f"{load.module.value} does not define '{exported}'",
        token.start,
        token.end,
        notes=(f"did you mean '{near}'?" if near else f"it defines {has}",),
        remedy="load a name that the file defines",
    )
