"""Target patterns, as the command line and queries have them: labels and wildcards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.diagnostics import Diagnostic, UsageError
from ..core.label import Label, LabelSyntaxError, check_package_name, parse_label
from ..core.target import Workspace
from .files import Files


@dataclass(frozen=True)
class Pattern:
    """Some targets. `name` is None for all of the package; `recursive`: and of all packages below it.

    `excluded` (written with a leading '-') takes them away from what the patterns before gave.
    """

    text: str
    repo: str
    package: str
    name: str | None = None
    recursive: bool = False
    excluded: bool = False

    @property
    def label(self) -> Label | None:
        """The one target that is meant, where it is one."""
        return None if self.name is None else Label(self.repo, self.package, self.name)


def parse_pattern(text: str, workspace: Workspace, files: Files, relative_package: str = "") -> Pattern:
    """Parse a pattern that was typed in the folder of `relative_package`.

    `//a:b`, `//a`, `//a:all`, `//a/...`, `@repo//...`; relative `b`, `:b`, `b/c`, `b:c`, `:all`, `...`.
    A relative path without a colon is the package of that path where there is one; else, a name in
    the nearest package above it.

    Raises:
        UsageError: it is not a pattern.
    """
    excluded = text.startswith("-")
    rest = text[1:] if excluded else text
    try:
        absolute = rest if rest.startswith(("//", "@")) else _absolute(rest, workspace, files, relative_package)
        repo, package, name = _split(absolute, workspace.name)
        if name in ("all", "*") and name != "":
            name = None
        recursive = package == "..." or package.endswith("/...")
        if recursive:
            if name is not None and ":" in absolute:
                raise LabelSyntaxError(f"'{text}' is not a pattern: after '...' there can be ':all' only")
            package, name = package[:-3].rstrip("/"), None
            check_package_name(package, text)
        elif name is not None:
            label = parse_label(absolute, main_repo=workspace.name)
            package, name = label.package, label.name
        else:
            check_package_name(package, text)
    except LabelSyntaxError as error:
        raise UsageError(
            Diagnostic(
                str(error).replace("is not a label", "is not a target pattern"),
                remedy="write //package:target, //package:all, //package/... or a relative path",
            )
        ) from None
    return Pattern(text, repo, package, name, recursive, excluded)


def _split(absolute: str, main_repo: str) -> tuple[str, str, str | None]:
    """Repository, package and name; the name is "" where it is left out."""
    repo, separator, rest = absolute.partition("//")
    if not separator:
        raise LabelSyntaxError(f"'{absolute}' is not a label: write @repository//package:name")
    repo = repo[1:]
    package, _, name = rest.partition(":")
    if repo:
        parse_label(f"@{repo}//x")
    return "" if repo == main_repo else repo, package, name


def _absolute(text: str, workspace: Workspace, files: Files, relative_package: str) -> str:
    """A relative pattern as an absolute one."""
    if not text:
        raise LabelSyntaxError("a target pattern cannot be empty")

    def join(path: str) -> str:
        return f"{relative_package}/{path}" if relative_package and path else relative_package or path

    package, colon, name = text.partition(":")
    if colon:
        return f"//{join(package)}:{name}"
    if text == "..." or text.endswith("/..."):
        return f"//{join(text)}"
    if text == "all":
        return f"//{relative_package}:all"
    segments = text.rstrip("/").split("/")
    for length in range(len(segments), 0, -1):
        candidate = join("/".join(segments[:length]))
        check_package_name(candidate, text)
        if files.is_package(f"{workspace.root}/{candidate}"):
            name = "/".join(segments[length:]) or segments[length - 1]
            return f"//{candidate}:{name}"
    return f"//{relative_package}:{text}"


def packages_below(folder: str, package: str, files: Files) -> Iterator[str]:
    """The packages at and below `package`, whose folder is `folder`, in order of their names.

    Folders of outputs, hidden ones and workspaces of their own are not entered.
    """
    stack = [(folder, package)]
    while stack:
        folder, package = stack.pop()
        if files.is_package(folder):
            yield package
        entries = files.entries(folder) or {}
        for name in sorted((n for n, is_folder in entries.items() if is_folder), reverse=True):
            inner = f"{folder}/{name}"
            if not files.is_workspace(inner):
                stack.append((inner, f"{package}/{name}" if package else name))
