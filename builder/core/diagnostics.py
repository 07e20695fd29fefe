"""Diagnostics: what went wrong, where, what was expected, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file, as the user would type it. Lines and columns count from 1; 0 is unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@dataclass(frozen=True)
class Diagnostic:
    """One mistake, told so that its author can mend it without asking anybody.

    `message` says what is wrong in one line; `source_line` is the text at `location`, under which
    `span` characters are marked; `notes` add facts (what was expected, the nearest valid name);
    `remedy` says what to do.
    """

    message: str
    location: Location | None = None
    source_line: str | None = None
    span: int = 1
    notes: tuple[str, ...] = ()
    remedy: str | None = None

    def render(self) -> str:
        """The diagnostic as it is printed: several lines, no trailing newline."""
        prefix = f"{self.location}: " if self.location else ""
        lines = [f"{prefix}error: {self.message}"]
        if self.source_line is not None and self.location and self.location.line:
            number = f"{self.location.line:5d} | "
            lines.append(number + self.source_line)
            if self.location.column:
                margin = " " * (len(number) - 2) + "| "
                # Tabs are kept so that the caret stands under its character whatever a tab's width.
                before = self.source_line[: self.location.column - 1]
                indent = "".join(c if c == "\t" else " " for c in before)
                lines.append(margin + indent + "^" * max(1, self.span))
        lines.extend(f"  note: {note}" for note in self.notes)
        if self.remedy:
            lines.append(f"  to fix: {self.remedy}")
        return "\n".join(lines)


class BuildError(Exception):
    """One or more mistakes of the user's. Carries diagnostics; never shown as a traceback."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics = tuple(diagnostics)
        if not self.diagnostics:
            raise ValueError("BuildError needs at least one diagnostic")
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class UsageError(BuildError):
    """The mistake is in what was asked for, such as a target pattern or a query, not in the workspace."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, or None where nothing is close enough to suggest."""
    matches: Sequence[str] = difflib.get_close_matches(name, sorted(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None
