"""Labels: the names of targets, as in Bazel.

`@repo//package:name`. The main repository's own name is the empty string, so that
`//models:m` and `@examples//models:m` are one label inside the workspace `examples`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REPO = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")
# Segments of characters that are safe in paths, none of them "." or "..".
_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.,+=@~!#$%^&(){}\[\] -]+"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")


class LabelSyntaxError(ValueError):
    """A string that is no label; the message says what is wrong and what a label looks like."""


@dataclass(frozen=True, order=True)
class Label:
    """One target or file: `@repo//package:name` (`repo` is "" for the main repository)."""

    repo: str
    package: str
    name: str

    def __str__(self) -> str:
        repo = f"@{self.repo}" if self.repo else ""
        return f"{repo}//{self.package}:{self.name}"

    def sibling(self, name: str) -> Label:
        """The label of `name` in the same package."""
        return Label(self.repo, self.package, name)


def parse_label(text: str, *, repo: str = "", package: str = "", main_repo: str = "") -> Label:
    """Parse an absolute or relative label.

    `repo` and `package` say where the text stands (`:x`, `x` and `//p` are relative to them);
    `main_repo` is the main workspace's own name, which means the same as no name.

    Raises:
        LabelSyntaxError: the text is not a label.
    """
    if not text:
        raise LabelSyntaxError("a label cannot be empty")
    rest = text
    if rest.startswith("@"):
        repo, separator, rest = rest[1:].partition("//")
        if not separator or (repo and not _REPO.fullmatch(repo)):
            raise LabelSyntaxError(f"'{text}' is not a label: write @repository//package:name")
        repo = "" if repo == main_repo else repo
        rest = "//" + rest
    if rest.startswith("//"):
        package, separator, name = rest[2:].partition(":")
        if not separator:
            name = package.rpartition("/")[2]
    else:
        name = rest[1:] if rest.startswith(":") else rest
    check_package_name(package, text)
    check_target_name(name, text)
    return Label(repo, package, name)


def check_package_name(package: str, text: str) -> None:
    """Raise LabelSyntaxError unless `package` is a relative path of plain segments, or empty."""
    if package and not _PATH.fullmatch(package):
        raise LabelSyntaxError(f"'{text}' is not a label: '{package}' is not a package path")


def check_target_name(name: str, text: str) -> None:
    """Raise LabelSyntaxError unless `name` can name a target: a relative path that stays inside."""
    if not _PATH.fullmatch(name):
        raise LabelSyntaxError(f"'{text}' is not a label: '{name}' is not a target name")
