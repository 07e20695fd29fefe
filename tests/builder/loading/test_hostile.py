"""BUILD files of strangers neither crash nor hang the builder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.analysed import write_workspace
from support.loading import SCHEMAS, load_files, messages, target_of

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.loading import interpreter
from rules_executorch.builder.loading.load import load
from rules_executorch.builder.loading.workspace import find_workspace

PIECES = st.sampled_from(
    ['thing(name = "x")', "load(", '":m.bzl"', '"', "'''", "(", ")", "[", "{", "\\", "\n", " ", "\t", "=", ",", "#",
     "select({", "glob(", "package(", "def f():", "for x in y:", "lambda", "\r\n", "é", "\ufeff", "\u2028", "1", ".", "native."]
)  # fmt: skip

EXHAUSTED = "needs more memory than the interpreter has: something is too large, or nested too deeply"


@given(st.binary(max_size=200) | st.lists(PIECES, max_size=20).map(lambda pieces: "".join(pieces).encode()))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_build_file_or_a_mistake(tmp_path: Path, content: bytes) -> None:
    write_workspace(tmp_path, {"BUILD": "", "m.bzl": ""})
    (tmp_path / "BUILD").write_bytes(content)
    try:
        load(find_workspace(tmp_path), ["//:all"], SCHEMAS)
    except BuildError as error:
        assert all(d.message for d in error.diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 3_000_000 + ")" * 3_000_000,
        "x = " + "-" * 9_000_000 + "1",
    ],
    ids=["parentheses", "signs"],
)
def test_what_is_nested_too_deeply_is_a_mistake(tmp_path: Path, text: str) -> None:
    (message,) = messages(tmp_path, {"BUILD": text})
    assert message == f"BUILD: BUILD {EXHAUSTED}"


def test_values_that_are_nested_too_deeply_are_a_mistake(tmp_path: Path) -> None:
    module = "def f(depth):\n  x = []\n  for _ in range(depth):\n    x = [x]\n  return x\n"
    for depth in (100, 1500, 5000):
        files = {"m.bzl": module, "BUILD": f'load(":m.bzl", "f")\nthing(name = "x", data = f({depth}))\n'}
        (message,) = messages(tmp_path, files)
        assert "nested" in message
    files["BUILD"] = 'load(":m.bzl", "f")\nthing(name = "x", data = f(5000000))\n'
    (message,) = messages(tmp_path, files)
    assert "nested too deeply" in message


@pytest.mark.parametrize("where", ["BUILD", "m.bzl"])
def test_a_file_that_does_not_end_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(interpreter, "TIME_LIMIT", 1.0)
    files = {"BUILD": 'load(":m.bzl", "x")\n', "m.bzl": "x = 1\n"}
    files[where] += "y = [1 for a in range(1000000000) for b in range(1000000000) if a < b - 2000000000]\n"
    assert messages(tmp_path, files) == [f"{where}: evaluating {where} took longer than 1 seconds"]


def test_a_file_that_takes_all_memory_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "TIME_LIMIT", 20.0)
    files = {"BUILD": "x = [[0] * 100000000 for _ in range(10000)]\n"}
    (message,) = messages(tmp_path, files)
    assert message == f"BUILD: BUILD {EXHAUSTED}"


@pytest.mark.parametrize("text", ["x = 'a' * 100000000000", "x = [0] * 100000000000", "x = 1 << 100000000"])
def test_values_that_are_too_large_are_a_mistake(tmp_path: Path, text: str) -> None:
    (message,) = messages(tmp_path, {"BUILD": text + "\n"})
    assert message.startswith("BUILD:1:")


def test_recursion_is_a_mistake(tmp_path: Path) -> None:
    files = {"BUILD": 'load(":m.bzl", "f")\nf()\n', "m.bzl": "def f(): f()\n"}
    assert messages(tmp_path, files) == ["m.bzl:1:10: function f called recursively"]


def test_an_interpreter_that_is_killed_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(self: interpreter.Interpreter, *arguments: object) -> object:
        assert self._process is not None
        self._process.kill()
        return receive(self, *arguments)

    receive = interpreter.Interpreter._receive
    workspace_files = {"BUILD": 'thing(name = "x")\n'}
    write_workspace(tmp_path, workspace_files)
    workspace = find_workspace(tmp_path)
    monkeypatch.setattr(interpreter.Interpreter, "_receive", kill)
    with pytest.raises(BuildError):
        # A file long enough that its answer cannot have been sent already.
        (tmp_path / "BUILD").write_text("x = [1 for a in range(100000000)]\n")
        load(workspace, ["//:all"], SCHEMAS)


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))


def _children() -> set[str]:
    """The processes that this one has started and not waited for: other tests may have some."""
    return {child for task in Path("/proc/self/task").glob("*") for child in (task / "children").read_text().split()}


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    write_workspace(tmp_path, {})
    os.mkfifo(tmp_path / "BUILD")
    with pytest.raises(BuildError, match="BUILD cannot be read"):
        load(find_workspace(tmp_path), ["//:all"], SCHEMAS)


def test_a_file_that_is_too_large_is_a_mistake(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, {"BUILD": "#" * (33 << 20)})
    assert message == "BUILD: BUILD is larger than 32 MiB"


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    before = _open_files(), _children()
    for _ in range(3):
        load_files(tmp_path, {"BUILD": 'thing(name = "x")\n'})
    assert (_open_files(), _children()) == before


def test_control_characters_in_strings_are_only_characters(tmp_path: Path) -> None:
    files = {"BUILD": 'thing(name = "x", text = "\\u0001select:0\\u0001", words = ["\\u0001select:99\\u0001"])\n'}
    assert len(messages(tmp_path, files)) == 2
    graph = load_files(tmp_path, {"BUILD": 'thing(name = "x", text = "a\\tb\\u0001é")\n'})
    assert target_of(graph, "//:x").attributes["text"] == "a\tb\1é"
