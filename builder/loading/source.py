"""Source texts of BUILD and .bzl files: their top-level statements, and where in them a word stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..core.diagnostics import BuildError, Diagnostic, Location

# A prefix of r or b changes nothing of where a string ends. The parts exclude each other, so that
# nothing here is ever tried in two ways: matching is linear in the text.
_STRING = r"""
    (?: \"{3} (?: [^"\\] | \\. | "{1,2}(?!") )* \"{3}
      | '{3} (?: [^'\\] | \\. | '{1,2}(?!') )* '{3}
      | "(?!"") (?: [^"\\\n] | \\. )* "
      | '(?!'') (?: [^'\\\n] | \\. )* ' )
"""


def _bracketed(inner: str) -> str:
    """A pair of brackets and what is between them, where `inner` matches nested ones."""
    plain = r"""[^\[\](){}"'\#]*"""
    return rf"[\[({{] {plain} (?: (?: {_STRING} | \#[^\n]* | {inner} ) {plain} )* [\])}}]"


# What a scan for statements must see. Brackets that are nested no deeper than most are, such as a
# whole target, are one match; deeper ones are counted. The rest is skipped in runs.
_SCAN = re.compile(
    rf"""
    (?P<blank> [ \t\r]+ | \#[^\n]* | \\\r?\n )
  | (?P<text> {_STRING} | {_bracketed(_bracketed(_bracketed("(?!)")))} )
  | (?P<open> [\[({{] ) | (?P<close> [\])}}] ) | (?P<newline> \n ) | (?P<end> ; )
  | (?P<compare> [=!<>]= ) | (?P<assign> = )
  | (?P<run> [^\[\](){{}}"'\#\n\\;=!<>]+ )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    rf"(?P<space>[ \t\r\n]+|\\\r?\n|\#[^\n]*)|(?P<string>[rb]{{0,2}}{_STRING})|(?P<name>\w+)|(?P<operator>[=!<>]=|.)",
    re.VERBOSE | re.DOTALL,
)
# Bytes. 20,000 targets in one file are four million.
_LARGEST = 32 << 20
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_FIRST_WORD = re.compile(r"\w*")
_DEF = re.compile(r"def\b")
# At the beginning of a line they go on with the statement before.
_CONTINUATION = re.compile(r"(?:else|elif)\b")


@dataclass(frozen=True)
class Token:
    """A string, name or operator; `start` and `end` are offsets in the source."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def value(self) -> str | None:
        """The value of a string token, or None where it is not a string of characters."""
        if self.kind != "string":
            return None
        try:
            value = ast.literal_eval(self.text)
        except (ValueError, SyntaxError):
            return None
        return value if isinstance(value, str) else None


@dataclass(frozen=True)
class Statement:
    """A top-level statement: its extent in the source, its line, its first word, and the names that it binds."""

    start: int
    end: int
    line: int
    keyword: str
    binds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """The text of a file, under the name by which messages call it."""

    name: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return [line.rstrip("\r") for line in self.text.split("\n")]

    @cached_property
    def statements(self) -> list[Statement]:
        return list(split_statements(self.text))

    def location(self, offset: int) -> Location:
        """The place of a character."""
        line = self.text.count("\n", 0, offset) + 1
        return Location(self.name, line, offset - (self.text.rfind("\n", 0, offset) + 1) + 1)

    def diagnostic(
        self,
        message: str,
        start: int,
        end: int | None = None,
        *,
        notes: tuple[str, ...] = (),
        remedy: str | None = None,
    ) -> Diagnostic:
        """A mistake in the characters from `start` to `end`, of which those on the first line are marked."""
        location = self.location(start)
        line = self.lines[location.line - 1]
        rest = len(line) - location.column + 1
        span = max(1, min(rest, (end if end is not None else start + 1) - start))
        return Diagnostic(message, location, line, span, notes, remedy)

    def diagnostic_at(
        self, message: str, line: int, column: int, *, notes: tuple[str, ...] = (), remedy: str | None = None
    ) -> Diagnostic:
        """A mistake at a line and column, where a name is marked as a whole."""
        if not 1 <= line <= len(self.lines):
            return Diagnostic(message, Location(self.name), notes=notes, remedy=remedy)
        text = self.lines[line - 1]
        word = _FIRST_WORD.match(text, max(0, column - 1))
        span = len(word.group()) if word else 1
        return Diagnostic(message, Location(self.name, line, column), text, max(1, span), notes, remedy)

    def tokens(self, start: int, end: int) -> Iterator[Token]:
        """The tokens between two offsets, without spaces and comments."""
        return tokens(self.text, start, end)


def tokens(text: str, start: int, end: int) -> Iterator[Token]:
    """The tokens of a text between two offsets, without spaces and comments."""
    for match in _TOKEN.finditer(text, start, end):
        if match.lastgroup != "space":
            yield Token(match.lastgroup or "", match.group(), match.start(), match.end())


def split_statements(text: str) -> Iterator[Statement]:
    """The top-level statements of a file, in order.

    Where the text is not valid Starlark the result is some division of it: the interpreter, which
    sees the same text, is who says what is wrong. A `def` includes its body. Linear in the text.
    """
    depth = 0
    line = 1
    start = -1
    start_line = 0
    assigned = -1

    def statement(end: int) -> Statement:
        keyword = _FIRST_WORD.match(text, start)
        word = keyword.group() if keyword else ""
        return Statement(start, end, start_line, word, () if word == "load" else _bound(text, start, assigned))

    for match in _SCAN.finditer(text):
        kind = match.lastgroup
        if kind == "newline":
            line += 1
            continue
        begin = match.start()
        if depth == 0 and kind != "blank" and (start < 0 or _starts_line(text, begin)):
            if start >= 0:
                yield statement(begin)
            start, start_line, assigned = begin, line, -1
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
        elif kind == "assign" and depth == 0 and assigned < 0:
            assigned = begin
        elif kind == "end" and depth == 0 and not _DEF.match(text, start):
            yield statement(match.end())
            start = -1
        elif kind in ("text", "blank"):
            line += match.group().count("\n")
    if start >= 0:
        yield statement(len(text))


def _starts_line(text: str, offset: int) -> bool:
    """Whether a line begins at `offset` that does not go on with the statement before."""
    if offset == 0:
        return True
    if text[offset - 1] != "\n" or _CONTINUATION.match(text, offset):
        return False
    return not text.endswith(("\\\n", "\\\r\n"), 0, offset)


def _bound(text: str, start: int, assigned: int) -> tuple[str, ...]:
    """The names that a statement binds: of a def, or left of its first `=`. May name some more."""
    if _DEF.match(text, start):
        name = _IDENTIFIER.search(text, start + 3)
        return (name.group(),) if name else ()
    if assigned < 0:
        return ()
    return tuple(dict.fromkeys(_IDENTIFIER.findall(text, start, assigned)))


def read_source(name: str, content: bytes | None) -> Source:
    """The source text in a file's bytes; None stands for a file that cannot be read.

    Raises:
        BuildError: there are no bytes, or they are not UTF-8, hold NUL, or are too many.
    """
    if content is None:
        message = f"{name} cannot be read"
        raise BuildError(Diagnostic(message, Location(name), remedy="make it a file that you have permission to read"))
    if len(content) > _LARGEST:
        message = f"{name} is larger than {_LARGEST >> 20} MiB"
        raise BuildError(Diagnostic(message, Location(name), remedy="divide it into several packages"))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BuildError(
            Diagnostic(
                f"{name} is not text in UTF-8: byte 0x{content[error.start]:02x}",
                Location(name, line),
                remedy="save the file as UTF-8",
            )
        ) from None
    source = Source(name, text)
    if "\0" in text:
        raise BuildError(source.diagnostic("a NUL character", text.index("\0"), remedy="remove it"))
    return source
