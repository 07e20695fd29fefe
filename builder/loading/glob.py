"""glob(): the files of a package that match patterns, as in Bazel.

A pattern is walked as an automaton whose states are numbers of segments, alongside the folders. No
regular expressions: they would let a pattern of many stars take forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .files import Files

# A pattern's segments; "**" is one, and never the last.
Pattern = tuple[str, ...]
States = frozenset[int]


class GlobError(ValueError):
    """A pattern that is none, or that matches nothing; the message says what to do."""


def glob(
    files: Files, package_folder: str, include: Sequence[str], exclude: Sequence[str], allow_empty: bool
) -> list[str]:
    """The files below `package_folder` that match one of `include` and none of `exclude`, sorted.

    `*` stands for any characters of one name, `**` for any number of folders. Names that begin with
    a dot are matched only by patterns that do. Folders that are packages of their own are not
    entered. A workspace inside this one is data, its BUILD files included.

    Raises:
        GlobError: a pattern is wrong, or one of `include` matches nothing and `allow_empty` is False.
    """
    excluded = [parse_pattern(text) for text in exclude]
    found: set[str] = set()
    for text in include:
        pattern = parse_pattern(text)
        matched = [
            path for path in _walk(files, package_folder, pattern) if not any(matches(e, path) for e in excluded)
        ]
        if not matched and not allow_empty:
            raise GlobError(
                f"glob: '{text}' matches no file{' that is not excluded' if exclude else ''} in this package; "
                "mend the pattern, or give allow_empty = True"
            )
        found.update(matched)
    return sorted(found)


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> Pattern:
    """The segments of a pattern.

    Raises:
        GlobError: it is not a relative path, or has stars where they mean nothing.
    """
    segments = text.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise GlobError(f"glob: '{text}' is not a relative path without '.', '..' and empty names")
    for segment in segments:
        if "?" in segment:
            raise GlobError(f"glob: '{text}': '?' has no meaning in a pattern; use '*'")
        if "**" in segment and segment != "**":
            raise GlobError(f"glob: '{text}': '**' must be a path segment of its own")
    if segments[-1] == "**":
        segments.append("*")
    return tuple(s for i, s in enumerate(segments) if not (s == "**" and i and segments[i - 1] == "**"))


def matches(pattern: Pattern, path: str) -> bool:
    """Whether a relative path matches."""
    states = _closure(pattern, (0,))
    for name in path.split("/"):
        states = _step(pattern, states, name)
    return len(pattern) in states


def _walk(files: Files, package_folder: str, pattern: Pattern) -> Iterator[str]:
    """The files that match one pattern. Looks into folders only in which there can be any."""
    stack = [("", package_folder, _closure(pattern, (0,)), False)]
    while stack:
        prefix, folder, states, is_data = stack.pop()
        for name, is_folder in _candidates(files, folder, pattern, states):
            after = _step(pattern, states, name)
            if not is_folder:
                if len(pattern) in after:
                    yield prefix + name
            elif after - {len(pattern)}:
                inner = f"{folder}/{name}"
                inner_is_data = is_data or files.is_workspace(inner)
                if inner_is_data or not files.is_package(inner):
                    stack.append((f"{prefix}{name}/", inner, after, inner_is_data))


def _candidates(files: Files, folder: str, pattern: Pattern, states: States) -> Iterator[tuple[str, bool]]:
    """The entries of a folder that can match: one look-up where only one name can."""
    entries = files.entries(folder) or {}
    waiting = {pattern[state] for state in states if state < len(pattern)}
    if any("*" in segment for segment in waiting):
        yield from entries.items()
    else:
        yield from ((name, entries[name]) for name in waiting if name in entries)


def _closure(pattern: Pattern, states: Sequence[int]) -> States:
    """The states, and those behind a `**` that stands for no folder."""
    return frozenset(states) | {state + 1 for state in states if state < len(pattern) and pattern[state] == "**"}


def _step(pattern: Pattern, states: States, name: str) -> States:
    """The states after one more name of the path."""
    after = []
    for state in states:
        if state == len(pattern):
            continue
        if pattern[state] == "**":
            if not name.startswith("."):
                after.append(state)
        elif _name_matches(pattern[state], name):
            after.append(state + 1)
    return _closure(pattern, after)


def _name_matches(segment: str, name: str) -> bool:
    """Whether one name matches one segment; each part between stars is found as early as it can be."""
    if "*" not in segment:
        return segment == name
    if name.startswith(".") and not segment.startswith("."):
        return False
    first, *middle, last = segment.split("*")
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    position, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
