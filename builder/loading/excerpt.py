"""Diagnostics about what a BUILD or .bzl file says, at the very word of it that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from ..core.diagnostics import Diagnostic, Location, nearest
from .interpreter import Call, Frame, Problem
from .source import Source, Token

_UNDEFINED = re.compile(r"undefined: ([\w.]+)(?: \(did you mean .*\))?")
_UNEXPECTED = re.compile(r"got (.+), want (.+)")
_OPERATOR = re.compile(r"unknown binary op: (\w+) (\S+) (\w+)")
_SYNTAX_REMEDIES = {
    "','": "put a comma before it, or close the bracket",
    "')'": "close the parenthesis",
    "']'": "close the bracket",
    "'}'": "close the brace",
    "newline": "end the statement before it, or put an operator between",
}
_PREDECLARED = (
    *("None", "True", "False", "abs", "all", "any", "bool", "bytes", "chr", "dict", "dir", "enumerate", "fail"),
    *("float", "getattr", "hasattr", "hash", "int", "len", "list", "max", "min", "ord", "print", "range", "repr"),
    *("reversed", "sorted", "str", "tuple", "type", "zip"),
)


def call_diagnostic(
    source: Source,
    call: Call,
    message: str,
    attribute: str | None = None,
    text: str | None = None,
    *,
    notes: Iterable[str] = (),
    remedy: str | None = None,
) -> Diagnostic:
    """A mistake in a call: at the string `text` in its argument `attribute`, as far as they can be found.

    What a macro calls is shown where the BUILD file calls the macro.
    """
    statement = source.statements[call.statement]
    start, end = _find(list(source.tokens(statement.start, statement.end)), attribute, text)
    if statement.keyword not in (call.name, ""):
        notes = (*notes, f"in a {call.name} that this statement makes")
    return source.diagnostic(message, start, end, notes=tuple(notes), remedy=remedy)


def call_location(source: Source, call: Call) -> Location:
    """Where a call's statement begins."""
    return Location(source.name, source.statements[call.statement].line, 1)


def _find(tokens: Sequence[Token], attribute: str | None, text: str | None) -> tuple[int, int]:
    """The extent of what is meant among the tokens of a statement; else of its first token."""
    first, last = 0, len(tokens)
    found = None
    if attribute is not None:
        for index, token in enumerate(tokens[:-1]):
            if token.text == attribute and token.kind == "name" and tokens[index + 1].text == "=":
                found = token
                first, last = index, _end_of_argument(tokens, index)
                break
    if text is not None:
        for part in (tokens[first:last], tokens):
            for token in part:
                if token.value == text:
                    return token.start, token.end
    token = found or tokens[0]
    return token.start, token.end


def _end_of_argument(tokens: Sequence[Token], index: int) -> int:
    """The index behind the last token of the argument that begins at `index`."""
    depth = 0
    for position in range(index, len(tokens)):
        text = tokens[position].text
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
        if depth < 0 or (depth == 0 and text == ","):
            return position
    return len(tokens)


def evaluation_diagnostics(
    source: Source,
    problems: Iterable[Problem],
    known: Collection[str],
    kind: str,
    *,
    lost: Collection[str] = (),
    find_source: Callable[[str], Source | None] = lambda name: None,
) -> list[Diagnostic]:
    """What the interpreter found wrong with a file.

    `known` are the names that are defined in it, beside Starlark's own; `kind` says what sort of
    file it is. What is about a name in `lost` is left out: that it is not defined follows from
    another mistake. `find_source` gives the text of another file, by its name.
    """
    diagnostics = []
    for problem in problems:
        frame = problem.frames[-1]
        undefined = _UNDEFINED.fullmatch(problem.message) if problem.kind == "resolve" else None
        if undefined:
            if undefined.group(1) not in lost:
                diagnostics.append(_undefined(source, frame, undefined.group(1), known, kind))
        elif problem.kind == "eval":
            diagnostics.append(_failed(source, problem, find_source))
        else:
            message, remedy = _explained(problem.message)
            diagnostics.append(source.diagnostic_at(message, frame.line, frame.column, remedy=remedy))
    return diagnostics


def _undefined(source: Source, frame: Frame, name: str, known: Collection[str], kind: str) -> Diagnostic:
    near = nearest(name.rpartition(".")[2], (*known, *_PREDECLARED))
    if name.startswith("native.") and near:
        near = f"native.{near}"
    if name == "native":
        remedy = "in a BUILD file, rules are called by their plain names; `native` is for macros"
    else:
        remedy = f"define it above, or load() it: {kind} sees only its own names, what it loads, and the rules"
    return source.diagnostic_at(
        f"'{name}' is not defined",
        frame.line,
        frame.column,
        notes=(f"did you mean '{near}'?",) if near else (),
        remedy=remedy,
    )


def _failed(source: Source, problem: Problem, find_source: Callable[[str], Source | None]) -> Diagnostic:
    """An evaluation that failed: at its innermost place, or, for fail(), where the BUILD file called."""
    frames = list(problem.frames)
    is_fail = problem.message.startswith("fail: ")
    place = frames[0] if is_fail else frames[-1]
    others = frames[1:] if is_fail else frames[-2::-1]
    word = "raised" if is_fail else "called"
    notes = tuple(f"{word} at {f.file}:{f.line}:{f.column}, in {_function(f)}" for f in others)
    message, remedy = (problem.message[len("fail: ") :], None) if is_fail else _explained(problem.message)
    place_source = source if place.file == source.name else find_source(place.file)
    if place_source is None:
        return Diagnostic(message, Location(place.file, place.line, place.column), notes=notes, remedy=remedy)
    return place_source.diagnostic_at(message, place.line, place.column, notes=notes, remedy=remedy)


def _function(frame: Frame) -> str:
    return "the file itself" if frame.function == "<toplevel>" else f"{frame.function}()"


def _explained(message: str) -> tuple[str, str | None]:
    """A message of the interpreter's in the user's words, and what to do."""
    if "Don't know how to convert Starlark *starlark.Function" in message:
        allowed = "strings, numbers, booleans, None, lists, tuples and dicts"
        return "a function cannot be given to a rule", f"give only {allowed}"
    unexpected = _UNEXPECTED.fullmatch(message)
    if unexpected:
        got, want = unexpected.groups()
        return f"syntax error: {want} is expected here, not {got}", _SYNTAX_REMEDIES.get(want)
    operator = _OPERATOR.fullmatch(message)
    if operator:
        left, symbol, right = operator.groups()
        remedy = "make a list of it: […]" if {left, right} == {"list", "string"} else "give both sides the same type"
        return f"'{symbol}' cannot join {left} and {right}", remedy
    if message.startswith("glob: "):
        text, _, remedy = message.partition("; ")
        return text, remedy or "write paths and patterns below this package's folder, such as src/**/*.py"
    return message, None
