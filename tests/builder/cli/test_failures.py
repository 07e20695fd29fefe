"""After a failure: what is out of date, what was built, and how to look into it."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.build_command import build, write_files

FILES = {
    "BUILD": """
genrule(name = "first", srcs = ["in.txt"], outs = ["first.txt"], cmd = "grep -v broken $< > $@")
genrule(name = "second", srcs = [":first"], outs = ["second.txt"], cmd = "cp $< $@")
genrule(name = "other", srcs = ["in.txt"], outs = ["other.txt"], cmd = "cp $< $@")
""",
    "in.txt": "fine\n",
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(tmp_path / "ws", FILES)


def test_what_is_still_from_an_earlier_build_is_said(ws: Path) -> None:
    build(ws, "//...")
    (ws / "in.txt").write_text("broken\n")
    result = build(ws, "-k", "//...")
    assert result.returncode == 1
    assert "out of date, from an earlier build:\n  build-out/first.txt\n  build-out/second.txt\n" in result.stdout
    assert "//:other\n  build-out/other.txt\n" in result.stdout and "//:second" not in result.stdout
    assert (ws / "build-out/other.txt").read_text() == "broken\n"
    first = build(ws, "-j1", "//:second")
    assert "out of date, from an earlier build:\n  build-out/first.txt\n" in first.stdout


def test_what_was_never_built_is_not_called_out_of_date(ws: Path) -> None:
    (ws / "in.txt").write_text("broken\n")
    assert "out of date" not in build(ws, "-k", "//...").stdout


def test_the_line_that_reproduces_a_failure_does(ws: Path) -> None:
    (ws / "in.txt").write_text("broken\n")
    result = build(ws, "//:first")
    line = re.search(r"to run it again: (.*)", result.stderr)
    assert line
    again = subprocess.run(line[1], shell=True, capture_output=True, text=True, check=False)
    assert again.returncode == 1, "grep finds no line"
    if "sandbox: " in result.stderr:
        pytest.skip("without namespaces, inputs are copies, as the failure left them")
    (ws / "in.txt").write_text("fine\n")
    mended = subprocess.run(line[1], shell=True, capture_output=True, text=True, check=False)
    assert mended.returncode == 0, mended.stderr
    outputs = list(Path(shlex.split(line[1])[1]).rglob("first.txt"))
    assert [output.read_text() for output in outputs] == ["fine\n"]


def test_sandbox_debug_keeps_what_succeeded_too(ws: Path) -> None:
    assert "to run it again" not in build(ws, "//:other").stderr
    (ws / "in.txt").write_text("changed\n")
    kept = re.search(r"to run it again: cd (\S+) && ", build(ws, "--sandbox_debug", "//:other").stderr)
    assert kept and (Path(kept[1]) / "root").is_dir()
    build(ws, "//:first")
    assert not Path(kept[1]).exists(), "the next build that runs something removes it"
