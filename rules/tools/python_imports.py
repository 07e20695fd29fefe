"""Finds which Python sources modules do not import, not even through others.

Usage: python_imports --unused=MODULE=OUT … [--root=FOLDER …] [--used=FILE …] [FILE …]

Writes to each OUT the FILEs, one per line and sorted, that `import MODULE` cannot reach with the FOLDERs
on sys.path. It reads sources and runs none, so what is imported under a computed name is not
seen: files given with --used count as reached.
"""

from __future__ import annotations

import ast
import functools
import posixpath
import sys
from collections.abc import Iterable, Mapping


def modules_by_name(files: Iterable[str], roots: Iterable[str]) -> dict[str, list[str]]:
    """The files that each dotted name may mean, for all folders of sys.path."""
    names: dict[str, list[str]] = {}
    files = list(files)
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


@functools.cache
def imported_names(source: bytes, names: tuple[str, ...], is_package: bool) -> frozenset[str]:
    """The dotted names that a source may import, if the file itself is known as one of `names`.

    A source with a syntax error imports nothing: whoever runs it will say so.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    packages = [name if is_package else name.rpartition(".")[0] for name in names]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for base in _bases(node, packages):
                found.add(base)
                # `from a import b`: b may be a module of a, or anything else.
                found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _name(node.func) in ("import_module", "__import__"):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(argument.value)
    return frozenset(found)


def _bases(node: ast.ImportFrom, packages: Iterable[str]) -> set[str]:
    if not node.level:
        return {node.module or ""}
    bases = set()
    for package in packages:
        parts = package.split(".") if package else []
        if node.level - 1 <= len(parts):
            bases.add(".".join((*parts[: len(parts) - node.level + 1], *([node.module] if node.module else []))))
    return bases


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def reachable(
    module: str, used: Iterable[str], files: Iterable[str], roots: Iterable[str], sources: Mapping[str, bytes]
) -> set[str]:
    """The files that importing `module`, or any of `used`, may read, their packages' __init__ files among them."""
    by_name = modules_by_name(files, roots)
    names_of: dict[str, list[str]] = {}
    for name, candidates in by_name.items():
        for file in candidates:
            names_of.setdefault(file, []).append(name)
    reached: set[str] = set()
    seen: set[str] = set()
    pending = [module, *(name for file in used for name in names_of.get(file, ()))]
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
                pending.extend(imported_names(sources[file], tuple(names_of[file]), is_package))
    return reached


def main(*arguments: str) -> int:
    """Write the lists; always succeeds where the files can be read."""
    def of(option: str) -> list[str]:
        return [argument.removeprefix(option) for argument in arguments if argument.startswith(option)]

    roots, used = of("--root="), of("--used=")
    files = [argument for argument in arguments if not argument.startswith("--")]
    sources = {}
    for path in files:
        with open(path, "rb") as file:
            sources[path] = file.read()
    for module, _, out in (wanted.partition("=") for wanted in of("--unused=")):
        unused = sorted(set(files) - reachable(module, used, files, roots, sources))
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(f"{path}\n" for path in unused)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
