"""A build in which nothing changed is answered from what the last one kept, and any change is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.build_command import IMPORTS, build, counts, environment, write_files

from rules_executorch.builder.commands import watch
from rules_executorch.builder.commands.watch import Watched

_FILES = {
    "p/BUILD": 'load("//m:m.bzl", "copy")\n[copy(name = f + ".copy", src = f) for f in glob(["*.txt"])]\n',
    "p/a.txt": "a",
    "m/BUILD": "",
    "m/m.bzl": 'def copy(name, src):\n    genrule(name = name, srcs = [src], outs = [name + ".out"], cmd = "cp $< $@")\n',
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace that was built until an answer was kept."""
    root = write_files(tmp_path / "ws", _FILES)
    for _ in range(200):
        assert build(root, "//...").returncode == 0
        kept = [watch.read(str(folder)) for folder in (root / "build-out/.state/requests").iterdir()]
        if any(watched and watched.certain for watched in kept):
            return root
    raise AssertionError("no build was certain that there is nothing to do")


_SPY = """
code = main()
print(*sys.modules, file=open(sys.argv[0], "w"))
sys.exit(code)
"""


def _modules(ws: Path, tmp_path: Path, *arguments: str) -> set[str]:
    """What a build loads."""
    program = f"{IMPORTS}; sys.argv[0] = {str(tmp_path / 'modules')!r}\n{_SPY}"
    env = environment(tmp_path / "ws-cache")
    subprocess.run([sys.executable, "-c", program, *arguments], cwd=ws, env=env, check=True, capture_output=True)
    return set((tmp_path / "modules").read_text().split())


def test_the_launcher_answers_itself_and_leaves_all_else_to_the_command(ws: Path, tmp_path: Path) -> None:
    command = tmp_path / "command"
    command.write_text('#!/bin/sh\necho took over: "$@"\n')
    command.chmod(0o755)

    def launch(*arguments: str) -> str:
        program = [sys.executable, "-I", "-S", launch_file, str(command), *arguments]
        env = environment(tmp_path / "ws-cache")
        return subprocess.run(program, cwd=ws, env=env, check=True, capture_output=True, text=True).stdout

    launch_file = str(Path(watch.__file__).parents[1] / "launch.py")
    assert launch("//...").startswith("//p:a.txt.copy\n  build-out/p/a.txt.copy.out\n1 action: 0 ran, ")
    assert launch("test", "//...", "a b") == "took over: test //... a b\n"
    (ws / "p/a.txt").write_text("other")
    assert launch("//...") == "took over: //...\n"


def test_an_answer_needs_neither_ninja_nor_options(ws: Path, tmp_path: Path) -> None:
    loaded = _modules(ws, tmp_path, "//...")
    package = "rules_executorch.builder"
    assert not loaded & {f"{package}.execution.ninja", f"{package}.commands.build", "argparse", "json.decoder"}


def test_with_options_no_more_is_needed_than_to_read_them(ws: Path, tmp_path: Path) -> None:
    loaded = _modules(ws, tmp_path, "build", "-k", "//...")
    assert not loaded & {"rules_executorch.builder.loading.load", "rules_executorch.builder.commands.perform"}


def test_an_answer_says_what_the_build_said(ws: Path) -> None:
    first = build(ws, "build", "-k", "//...").stdout.splitlines()
    second = build(ws, "//...").stdout.splitlines()
    assert first[:-1] == second[:-1] == ["//p:a.txt.copy", "  build-out/p/a.txt.copy.out"]


def test_an_answer_is_the_same_from_the_folder_above(ws: Path) -> None:
    build(ws.parent, "-C", "ws", "//...", cache=ws.parent / "ws-cache")
    result = build(ws.parent, "-C", "ws", "//...", cache=ws.parent / "ws-cache")
    assert result.stdout.startswith("//p:a.txt.copy\n  build-out/p/a.txt.copy.out\n") and counts(result) == (0, 0, 1)


def _edit(name: str, text: str) -> Callable[[Path], object]:
    return lambda ws: (ws / name).write_text(text)


def _replace_by_older(ws: Path) -> None:
    (ws / "older").write_text("o")
    os.utime(ws / "older", (1_000_000_000, 1_000_000_000))
    os.replace(ws / "older", ws / "p/a.txt")


def _tamper(ws: Path) -> None:
    output = ws / "build-out/p/a.txt.copy.out"
    times = output.stat()
    output.unlink()
    output.write_text("b")
    os.utime(output, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "outputs"),
    [
        pytest.param(_edit("p/a.txt", "changed"), {"a.txt": "changed"}, id="a source is edited"),
        pytest.param(_edit("p/a.txt", "b"), {"a.txt": "b"}, id="a source is edited and stays as long"),
        pytest.param(_replace_by_older, {"a.txt": "o"}, id="a source is replaced by an older file"),
        pytest.param(_edit("p/new.txt", "n"), {"a.txt": "a", "new.txt": "n"}, id="a file comes that glob finds"),
        pytest.param(
            lambda ws: os.rename(ws / "p/a.txt", ws / "p/z.txt"), {"z.txt": "a"}, id="a file that glob found moves"
        ),
        pytest.param(
            _edit("m/m.bzl", _FILES["m/m.bzl"].replace("cp $< $@", "cat $< $< > $@")), {"a.txt": "aa"}, id="a macro changes"
        ),
        pytest.param(_tamper, {"a.txt": "a"}, id="an output is tampered with and keeps its time"),
        pytest.param(lambda ws: shutil.rmtree(ws / "build-out/p"), {"a.txt": "a"}, id="outputs are deleted"),
    ],
)
def test_a_change_is_seen(ws: Path, change: Callable[[Path], object], outputs: dict[str, str]) -> None:
    change(ws)
    assert build(ws, "//...").returncode == 0
    assert {name: (ws / f"build-out/p/{name}.copy.out").read_text() for name in outputs} == outputs


def test_another_compiler_in_the_path_is_seen(ws: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    for _ in range(2):
        build(ws, "//...", PATH=path)
    requests = ws / "build-out/.state/requests"
    before = [(folder / "request.json").stat().st_mtime_ns for folder in requests.iterdir()]
    (tmp_path / "bin/g++").write_text("#!/bin/sh\necho other\n")
    (tmp_path / "bin/g++").chmod(0o755)
    build(ws, "//...", PATH=path)
    assert [(folder / "request.json").stat().st_mtime_ns for folder in requests.iterdir()] != before


def test_a_mistake_is_told_again(ws: Path) -> None:
    (ws / "p/BUILD").write_text("genrule(")
    assert build(ws, "//...").returncode == build(ws, "//...").returncode == 1


_NAMES = st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1), max_size=3)
_NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def _watched(draw: st.DrawFn) -> Watched:
    sources, outputs = draw(_NAMES), draw(_NAMES)
    size = 4 * len(sources) + 3 * len(outputs)
    statuses = watch.array("q", draw(st.lists(_NUMBER, min_size=size, max_size=size)))
    text = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
    return Watched(draw(text), draw(st.booleans()), draw(text), draw(st.integers(0, 9)), sources, outputs, statuses)


def _fields(watched: Watched | None) -> list:
    return [getattr(watched, name) for name in Watched.__slots__]


_SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@_SAME_FOLDER
@given(watched=_watched())
def test_what_is_kept_is_read_again(tmp_path: Path, watched: Watched) -> None:
    watch.write(str(tmp_path), watched)
    assert _fields(watch.read(str(tmp_path))) == _fields(watched)


@_SAME_FOLDER
@given(watched=_watched(), data=st.data())
def test_half_of_what_was_kept_is_nothing(tmp_path: Path, watched: Watched, data: st.DataObject) -> None:
    watch.write(str(tmp_path), watched)
    whole = Path(watch.path(str(tmp_path))).read_bytes()
    Path(watch.path(str(tmp_path))).write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert watch.read(str(tmp_path)) is None


@_SAME_FOLDER
@given(st.binary())
def test_any_bytes_are_read_or_nothing(tmp_path: Path, data: bytes) -> None:
    Path(watch.path(str(tmp_path))).write_bytes(data)
    watch.read(str(tmp_path))
