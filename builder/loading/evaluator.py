"""The process that evaluates Starlark: a script of its own, which `interpreter.py` starts and talks to.

It is the only importer of starlark_go, and is a process apart because the binding can be crashed
(deep nesting overflows Go's stack) and cannot be interrupted. It knows nothing of labels, packages
or files: what BUILD files call is recorded, and handed back as plain data.

The binding has no load(), and functions do not leave the interpreter. So all files share one
interpreter, in which a module's public names are kept under names of their own (`__3__name`); a file
that loads them begins with `name = __3__name`. All other names that a file defines are removed from
the interpreter when the file is done: its functions have them still.

Messages are marshalled tuples, each preceded by its length in four bytes; marshal because it keeps
apart what Starlark does (lists and tuples, keys of any type), and is private to the two processes.
"""

from __future__ import annotations

import marshal
import re
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

# Bytes of address space; Starlark reserves four gigabytes of it and never touches most.
ADDRESS_SPACE = 6 << 30
# Seconds of processor time, for the case that nobody is left to end this process.
PROCESSOR_TIME = 600

# Stands before each statement of a BUILD file, on the same line: what a call records as its place.
STATEMENT_MARK = "__statement__"

# `native.glob` is written with this letter for the dot, since the binding has no value with
# attributes to give; it looks like a dot, and nobody types it.
NATIVE_DOT = "\ua4f8"

_FRAME = re.compile(r"^  (.*):(\d+):(\d+): in (.*)$", re.MULTILINE)


def read_message(stream: BinaryIO) -> Any:
    """The next message, or None at the end of the stream."""
    header = stream.read(4)
    if len(header) < 4:
        return None
    (size,) = struct.unpack("<I", header)
    body = stream.read(size)
    return marshal.loads(body) if len(body) == size else None


def write_message(stream: BinaryIO, message: tuple[Any, ...]) -> None:
    """Send a message. Raises ValueError for what is nested too deeply, or is too large."""
    body = marshal.dumps(message)
    if len(body) >= 1 << 31:
        raise ValueError("too much data")
    stream.write(struct.pack("<I", len(body)) + body)
    stream.flush()


class Recorder:
    """What files of Starlark may call, and what they called.

    The binding borrows callables without holding them, so they live in `callables`, as long as
    the interpreter does.
    """

    def __init__(self, rules: Iterable[str], ask: Callable[..., Any]):
        self.statement = 0
        self.calls: list[tuple[str, int, tuple[Any, ...], dict[str, Any]]] = []
        self.selects: list[tuple[Any, str]] = []
        self.in_build_file = False
        self._ask = ask
        self.callables: dict[str, Callable[..., Any]] = {
            STATEMENT_MARK: self._mark,
            "glob": self._glob,
            "select": self._select,
        }
        for name in (*rules, "package", "exports_files"):
            self.callables[name] = self._recording(name)
        for name in [name for name in self.callables if name != STATEMENT_MARK]:
            self.callables[f"native{NATIVE_DOT}{name}"] = self.callables[name]

    def _mark(self, statement: int) -> None:
        self.statement = statement

    def _recording(self, name: str) -> Callable[..., None]:
        def call(*args: Any, **kwargs: Any) -> None:
            self._require_build_file(name)
            self.calls.append((name, self.statement, args, kwargs))

        return call

    def _glob(
        self, include: Any = (), exclude: Any = (), exclude_directories: Any = 1, allow_empty: Any = False
    ) -> Any:
        self._require_build_file("glob")
        for name, patterns in (("include", include), ("exclude", exclude)):
            if not isinstance(patterns, (list, tuple)) or not all(isinstance(p, str) for p in patterns):
                raise TypeError(f"glob: '{name}' must be a list of strings, not {patterns!r}")
        status, value = self._ask("glob", tuple(include), tuple(exclude), bool(allow_empty))
        if status != "ok":
            raise ValueError(value)
        return value

    def _select(self, branches: Any, no_match_error: Any = "") -> Any:
        if not isinstance(branches, dict) or not branches:
            raise TypeError("select takes a dict of at least one condition and what to use where it holds")
        if not all(isinstance(key, str) for key in branches):
            raise TypeError("the keys of a select are labels of config_setting targets, or //conditions:default")
        self.selects.append((branches, str(no_match_error)))
        # Not NUL, at which the binding cuts strings off.
        mark = f"\1select:{len(self.selects) - 1}\1"
        # Of the type of its branches, so that `+` works as it will on what is selected.
        like = next((value for value in branches.values() if value is not None), None)
        if isinstance(like, (list, tuple)):
            return type(like)((mark,))
        return {mark: ""} if isinstance(like, dict) else mark

    def _require_build_file(self, name: str) -> None:
        if not self.in_build_file:
            raise RuntimeError(f"{name}() can be called only while a BUILD file is evaluated: put it into a macro")


class Evaluator:
    """One interpreter, and the modules that it has executed."""

    def __init__(self, rules: Iterable[str], ask: Callable[..., Any]):
        import starlark_go

        self._starlark_go = starlark_go
        self._recorder = Recorder(rules, ask)
        self._interpreter = starlark_go.Starlark(
            globals=self._recorder.callables, print=lambda text: ask("print", text)
        )

    def execute(
        self,
        name: str,
        text: str,
        is_build_file: bool,
        defined: tuple[str, ...],
        exported: tuple[str, ...],
        prefix: str,
    ) -> tuple[Any, ...]:
        """Execute a file, and say what it did.

        `defined` are the names that the text binds, and may be some more; `exported` those of
        them that are afterwards known as `prefix` + name.
        """
        recorder = self._recorder
        recorder.calls, recorder.statement, recorder.in_build_file = [], 0, is_build_file
        selects = len(recorder.selects)
        self._starlark_go.configure_starlark(allow_global_reassign=is_build_file)
        try:
            self._interpreter.exec(text, filename=name)
            problem = None
        except self._starlark_go.SyntaxError as error:
            problem = ("syntax", [(error.msg, error.line, error.column)])
        except self._starlark_go.ResolveError as error:
            problem = ("resolve", [(item.msg, item.line, item.column) for item in error.errors])
        except self._starlark_go.EvalError as error:
            frames = [(f, int(line), int(column), where) for f, line, column, where in _FRAME.findall(error.backtrace)]
            problem = ("eval", error.args[0], frames or [(error.filename, error.line, error.column, "")])
        except (self._starlark_go.StarlarkError, UnicodeError) as error:
            problem = ("eval", str(error), [(name, 1, 1, "")])
        kept = self._keep(exported, prefix) if problem is None else []
        self._forget(defined)
        return ("done", problem, recorder.calls, recorder.selects[selects:], kept)

    def _keep(self, exported: tuple[str, ...], prefix: str) -> list[str]:
        """Give names a second name that no other file can bind; which names those are."""
        kept = []
        for name in exported:
            try:
                self._interpreter.exec(f"{prefix}{name} = {name}\n")
                kept.append(name)
            except self._starlark_go.ResolveError:
                # It is one of those too many.
                pass
        return kept

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._interpreter.pop(name, None)
            except (self._starlark_go.StarlarkError, KeyError):
                # Gone, though its value (a function) has no counterpart in Python.
                pass
            if name in self._recorder.callables:
                self._interpreter.set(**{name: self._recorder.callables[name]})


def _limit_resources() -> None:
    """Bound what a file of a stranger's can use up, where the system can."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_TIME, PROCESSOR_TIME))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    except (ImportError, ValueError, OSError):
        pass


def main() -> None:
    """Answer requests until there are no more: first the names of the rules, then files."""
    sys.path.append(sys.argv[1])
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    _limit_resources()

    def ask(*question: Any) -> Any:
        write_message(replies, question)
        return read_message(requests)

    evaluator = Evaluator(read_message(requests), ask)
    while (request := read_message(requests)) is not None:
        reply = evaluator.execute(*request)
        try:
            write_message(replies, reply)
        except ValueError:
            problem = ("eval", "what is given to a target is nested too deeply", [(request[0], 1, 1, "")])
            write_message(replies, ("done", problem, [], [], []))


if __name__ == "__main__":
    main()
