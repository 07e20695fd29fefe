"""`build run`: programs get their arguments, files and terminal, and their exit code comes back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.build_command import BUILD, build, environment, write_files


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(
        tmp_path / "ws",
        {
            "p/BUILD": """
py_binary(name = "tool", srcs = ["tool.py"], data = ["data.txt"])
cc_binary(name = "program", srcs = ["program.cc"])
py_library(name = "library", srcs = ["tool.py"])
""",
            "p/data.txt": "data",
            "p/tool.py": """
import os, sys
print(sys.argv[1:], open("w/p/data.txt").read(), os.environ["BUILD_WORKING_DIRECTORY"], os.environ["MINE"])
print(sys.stdin.read())
sys.exit(5)
""",
            "p/program.cc": '#include <cstdio>\nint main(int n, char** a) { std::puts(n > 1 ? a[1] : "none"); }\n',
        },
    )


def test_a_python_program(ws: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [*BUILD, "-C", "ws", "run", "//p:tool", "--", "-x", "a b"],
        cwd=tmp_path,
        env=environment(tmp_path / "cache", MINE="kept"),
        input="typed",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 5, result.stderr
    assert result.stdout == f"['-x', 'a b'] data {tmp_path} kept\ntyped\n"


def test_only_what_the_program_prints_is_on_standard_output(ws: Path) -> None:
    for arguments, expected in ((["--", "hello"], "hello\n"), ([], "none\n")):
        result = build(ws, "run", "//p:program", *arguments)
        assert (result.returncode, result.stdout) == (0, expected), result.stderr
    assert list((ws / "build-out/.state/runs").iterdir()) == []


def test_a_program_also_runs_from_the_folder_of_outputs(ws: Path) -> None:
    build(ws, "//p:program")
    assert subprocess.run([ws / "build-out/p/program", "x"], capture_output=True, text=True).stdout == "x\n"


def test_what_is_no_program_is_told(ws: Path) -> None:
    result = build(ws, "run", "//p:library")
    assert result.returncode == 1 and "//p:library is not a program" in result.stderr
    result = build(ws, "run", "//p:all")
    assert result.returncode == 1 and "names 3" in result.stderr


def test_a_program_that_cannot_be_built_is_not_run(ws: Path) -> None:
    (ws / "p/program.cc").write_text("not C++")
    result = build(ws, "run", "//p:program")
    assert (result.returncode, result.stdout) == (1, "")
    assert "CppCompile of //p:program failed" in result.stderr
