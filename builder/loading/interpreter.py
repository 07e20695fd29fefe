"""Runs Starlark files in a process of their own, which can neither crash nor hang this one."""

from __future__ import annotations

import importlib.util
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.diagnostics import BuildError, Diagnostic, Location
from . import evaluator
from .source import Source, Statement, tokens

# How long one file may take, in seconds. The largest real ones take a fraction of one.
TIME_LIMIT = 60.0


@dataclass(frozen=True)
class Call:
    """A rule, package() or exports_files() as a BUILD file called it, in its `statement`-th statement."""

    name: str
    statement: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Frame:
    """Where in which function an evaluation was."""

    file: str
    line: int
    column: int
    function: str


@dataclass(frozen=True)
class Problem:
    """Why a file could not be executed to its end: where, from the outermost call to the innermost."""

    kind: str
    message: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class Execution:
    """What executing a file did. `exports` are the public names that it defined."""

    calls: tuple[Call, ...]
    problems: tuple[Problem, ...]
    exports: tuple[str, ...]


class Interpreter:
    """A Starlark interpreter for all files of a workspace. A context manager, since it is a process.

    `selects` holds what select() was given, by the number in the mark that it left in a value.
    """

    def __init__(self, rules: Iterable[str]):
        self._rules = tuple(rules)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = tempfile.TemporaryFile()
        self._selector = selectors.DefaultSelector()
        self._modules = 0
        self.selects: list[tuple[Mapping[str, Any], str]] = []

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._stderr.close()
        self._selector.close()

    def execute_build_file(
        self, source: Source, loaded: Mapping[str, str], glob: Callable[..., list[str]], skip: Iterable[int] = ()
    ) -> Execution:
        """Execute a BUILD file, without the statements numbered in `skip`.

        `loaded` maps the names that it loads to what `execute_module` called them; `glob` answers
        glob(include, exclude, allow_empty) or raises ValueError.

        Raises:
            BuildError: it took too long, or too much memory.
        """
        text = _marked(source, loaded, frozenset(skip))
        defined = (*loaded, *_bound_names(source))
        return self._execute(source, (source.name, text, True, defined, (), ""), glob)

    def execute_module(self, source: Source, loaded: Mapping[str, str]) -> tuple[Execution, Mapping[str, str]]:
        """Execute a .bzl file; also what its public names are called in `loaded` of those that load it.

        Raises:
            BuildError: it took too long, or too much memory.
        """
        self._modules += 1
        prefix = f"__{self._modules}__"
        bound = _bound_names(source)
        public = tuple(name for name in bound if not name.startswith("_") and name not in loaded)
        text = _with_native(_with_loads(source, loaded))
        execution = self._execute(source, (source.name, text, False, (*loaded, *bound), public, prefix), None)
        return execution, {name: prefix + name for name in execution.exports}

    def _execute(self, source: Source, request: tuple[Any, ...], glob: Callable[..., list[str]] | None) -> Execution:
        process = self._started(source)
        deadline = time.monotonic() + TIME_LIMIT
        self._send(process, source, request)
        is_build_file = glob is not None
        while True:
            kind, *rest = self._receive(process, source, deadline)
            if kind == "done":
                problem, calls, selects, exports = rest
                self.selects.extend(selects)
                marked = _mark_widths(source) if is_build_file else {}
                problems = _problems(source, problem, marked)
                return Execution(tuple(Call(*call) for call in calls), problems, tuple(exports))
            if kind == "glob" and glob is not None:
                try:
                    answer = ("ok", glob(*rest))
                except ValueError as error:
                    answer = ("error", str(error))
                self._send(process, source, answer)
            else:
                print(f"DEBUG: {source.name}: {rest[0]}", file=sys.stderr)
                self._send(process, source, ("ok", None))

    def _started(self, source: Source) -> subprocess.Popen[bytes]:
        if self._process is None:
            found = importlib.util.find_spec("starlark_go")
            if found is None or found.origin is None:
                raise BuildError(Diagnostic("starlark-go is not installed", remedy="pip install rules_executorch"))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", evaluator.__file__, str(Path(found.origin).parent.parent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
            )
            assert self._process.stdout is not None
            self._selector.register(self._process.stdout, selectors.EVENT_READ)
            self._send(self._process, source, self._rules)
        return self._process

    def _send(self, process: subprocess.Popen[bytes], source: Source, message: tuple[Any, ...]) -> None:
        assert process.stdin is not None
        try:
            evaluator.write_message(process.stdin, message)
        except BrokenPipeError:
            raise self._dead(source) from None

    def _receive(self, process: subprocess.Popen[bytes], source: Source, deadline: float) -> tuple[Any, ...]:
        assert process.stdout is not None
        # One message is under way at a time, so none can wait in a buffer meanwhile.
        if not self._selector.select(max(0.0, deadline - time.monotonic())):
            process.kill()
            raise BuildError(
                Diagnostic(
                    f"evaluating {source.name} took longer than {TIME_LIMIT:g} seconds",
                    Location(source.name),
                    remedy="look for a loop over a huge range() in it, or in a macro that it calls",
                )
            )
        message = evaluator.read_message(process.stdout)
        if message is None:
            raise self._dead(source)
        return message

    def _dead(self, source: Source) -> BuildError:
        """Why the process ended, as far as its last words tell."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._stderr.seek(0)
        words = self._stderr.read(1 << 20).decode("utf-8", "replace")
        if any(sign in words for sign in ("stack overflow", "stack exceeds", "out of memory", "MemoryError")):
            reason = "needs more memory than the interpreter has: something is too large, or nested too deeply"
        else:
            reason = f"ended the Starlark interpreter (exit status {self._process.returncode})"
        last = [line for line in words.splitlines() if line.strip()][:1] if "ended" in reason else []
        return BuildError(
            Diagnostic(
                f"{source.name} {reason}",
                Location(source.name),
                notes=tuple(f"its last words: {line}" for line in last),
                remedy="simplify the file, or a macro that it calls",
            )
        )


def _mark(number: int) -> str:
    return f"{evaluator.STATEMENT_MARK}({number});"


def _bound_names(source: Source) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for statement in source.statements for name in statement.binds))


def _marked(source: Source, loaded: Mapping[str, str], skip: frozenset[int]) -> str:
    """The text of a BUILD file as it is executed: each statement marked with its number, those in `skip` left out.

    All lines stay where they are, and all columns but those on the line of a mark.
    """

    def replaced(number: int, statement: Statement, text: str) -> str:
        if number in skip:
            return _blank(text)
        return _mark(number) + text if _takes_mark(source, statement.start) else text

    return _with_loads(source, loaded, replaced)


def _with_loads(
    source: Source,
    loaded: Mapping[str, str],
    replaced: Callable[[int, Statement, str], str] = lambda number, statement, text: text,
) -> str:
    """The text with what it loads defined in place of its first load(), and `replaced` applied to the rest."""
    assignments = "; ".join(f"{name} = {kept}" for name, kept in loaded.items())
    pieces = []
    position = 0
    for number, statement in enumerate(source.statements):
        text = source.text[statement.start : statement.end]
        pieces.append(source.text[position : statement.start])
        position = statement.end
        if statement.keyword == "load":
            pieces.append(assignments + _blank(text))
            assignments = ""
        else:
            pieces.append(replaced(number, statement, text))
    pieces.append(source.text[position:])
    return "".join(pieces)


def _takes_mark(source: Source, start: int) -> bool:
    """Whether a statement begins its line: others (after a semicolon) count as the one before."""
    return start == 0 or source.text[start - 1] == "\n"


def _mark_widths(source: Source) -> dict[int, int]:
    """By how many columns a mark shifts the rest of its line."""
    return {
        statement.line: len(_mark(number))
        for number, statement in enumerate(source.statements)
        if statement.keyword != "load" and _takes_mark(source, statement.start)
    }


def _with_native(text: str) -> str:
    """The text with `native.glob` written as the one name that the interpreter has for it."""
    if "native." not in text:
        return text
    pieces = []
    position = 0
    window = list(tokens(text, 0, len(text)))
    for word, dot, name in zip(window, window[1:], window[2:]):
        if word.text == "native" and dot.text == "." and name.kind == "name":
            pieces.append(text[position : dot.start] + evaluator.NATIVE_DOT)
            position = dot.end
    return "".join(pieces) + text[position:]


def _blank(text: str) -> str:
    return "\n" * text.count("\n")


def _problems(source: Source, problem: tuple[Any, ...] | None, widths: Mapping[int, int]) -> tuple[Problem, ...]:
    """What the evaluator reported, with columns as they are in the user's text."""
    if problem is None:
        return ()

    def words(message: str) -> str:
        return message.replace(evaluator.NATIVE_DOT, ".")

    def column(line: int, reported: int) -> int:
        return max(1, reported - widths.get(line, 0))

    if problem[0] == "eval":
        _, message, frames = problem
        shifted = [
            Frame(file, line, column(line, at) if file == source.name else at, function)
            for file, line, at, function in frames
        ]
        return (Problem("eval", words(message), tuple(shifted)),)
    kind, items = problem
    return tuple(
        Problem(kind, words(message), (Frame(source.name, line, column(line, at), ""),)) for message, line, at in items
    )
