"""Finds which Python sources importing a module may read, as a compiler's scanner finds which headers a source includes.

It reads sources and runs none, so what is imported under a computed name is not seen.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ..core.action import Imports
from ..core.digest import Digest, digest_bytes
from .remembered import remembered

# An import statement as plain data: the module, how many dots come before it, and what is taken from it.
Statement = Sequence  # [str, int, list[str]]


def reachable(wanted: Imports, imported: Callable[[str], Iterable[Statement]]) -> set[str]:
    """The exec_paths of the sources that importing the module, or what counts as used, may read.

    The __init__ files of their packages are among them. `imported` gives the import statements of a source.
    """
    by_name = _modules_by_name([source.exec_path for source in wanted.sources], wanted.roots)
    names_of: dict[str, list[str]] = {}
    for name, candidates in by_name.items():
        for file in candidates:
            names_of.setdefault(file, []).append(name)
    reached: set[str] = set()
    seen: set[str] = set()
    pending = [wanted.module, *(name for source in wanted.used for name in names_of.get(source.exec_path, ()))]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if "." in name:
            pending.append(name.rpartition(".")[0])
        for file in by_name.get(name, ()):
            if file not in reached:
                reached.add(file)
                is_package = posixpath.basename(file) == "__init__.py"
                packages = [name if is_package else name.rpartition(".")[0] for name in names_of[file]]
                for statement in imported(file):
                    pending += _names(statement, packages)
    return reached


@functools.cache
def imported_in_file(path: Path, digest: Digest, memory: Path) -> list[Statement]:
    """The import statements of the file at `path`, whose content has this digest. The folder `memory` remembers them.

    Raises:
        OSError: the file cannot be read, or is another by now.
    """

    def find() -> list[Statement]:
        source = path.read_bytes()
        if digest_bytes(source) != digest:
            raise OSError(f"{path} changed while it was read")
        return imported_in(source)

    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    return remembered(memory / name, [sys.version, digest.hash], find)


def imported_in(source: bytes) -> list[Statement]:
    """The import statements of a source, wherever they stand.

    A source that Python cannot parse imports nothing: whoever runs it will say so.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(_statements(tree))


def _statements(tree: ast.Module) -> Iterator[Statement]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield [alias.name, 0, []]
        elif isinstance(node, ast.ImportFrom):
            yield [node.module or "", node.level, [alias.name for alias in node.names]]
        elif isinstance(node, ast.Call) and node.args and _name(node.func) in ("import_module", "__import__"):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield [argument.value, 0, []]


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _modules_by_name(files: Sequence[str], roots: Iterable[str]) -> dict[str, list[str]]:
    """The files that each dotted name may mean, for all folders of sys.path."""
    names: dict[str, list[str]] = {}
    for root in roots:
        prefix = "" if root == "." else f"{root}/"
        for file in files:
            if file.startswith(prefix):
                parts = posixpath.splitext(file[len(prefix) :])[0].split("/")
                if parts[-1] == "__init__":
                    parts.pop()
                if parts:
                    names.setdefault(".".join(parts), []).append(file)
    return names


def _names(statement: Statement, packages: Iterable[str]) -> Iterator[str]:
    """The dotted names that a statement may import, in a file that is in one of `packages`."""
    module, level, taken = statement
    for base in _bases(module, level, packages) if level else [module]:
        yield base
        # `from a import b`: b may be a module of a, or anything else.
        yield from (f"{base}.{name}" for name in taken)


def _bases(module: str, level: int, packages: Iterable[str]) -> Iterator[str]:
    for package in packages:
        parts = package.split(".") if package else []
        if level - 1 <= len(parts):
            yield ".".join((*parts[: len(parts) - level + 1], *([module] if module else [])))
