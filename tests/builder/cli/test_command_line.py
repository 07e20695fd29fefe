"""The command line: verbs, help, mistakes, exit codes."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from support.build_command import build, write_files

from rules_executorch.builder.commands.options import VERBS, CommandLineError, parse


def test_without_arguments_it_prints_help(tmp_path: Path) -> None:
    result = build(tmp_path)
    assert result.returncode == 0 and "build run TARGET" in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, tmp_path: Path) -> None:
    one, other = build(tmp_path, verb, "--help"), build(tmp_path, "help", verb)
    assert one.returncode == other.returncode == 0
    assert one.stdout == other.stdout and f"{verb}" in one.stdout


@pytest.mark.skipif(not list(importlib.metadata.Distribution.discover(name="rules_executorch")), reason="not installed")
def test_version(tmp_path: Path) -> None:
    assert build(tmp_path, "--version").stdout.startswith("build 0.")


def test_build_is_the_verb_when_there_is_none() -> None:
    options = parse(["-k", "//x", "-//y:z"])
    assert (options.verb, options.targets, options.keep_going) == ("build", ["//x", "-//y:z"], True)


def test_the_folder_comes_before_the_verb_and_adds_up() -> None:
    assert parse(["-C", "a", "-Cb", "test", "//x"]).directory == "a/b"
    with pytest.raises(CommandLineError, match="-C needs a folder"):
        parse(["-C"])


def test_what_follows_two_dashes_is_the_programs() -> None:
    options = parse(["run", "//x", "--", "-k", "--", "//y"])
    assert (options.targets, options.arguments, options.keep_going) == (["//x"], ["-k", "--", "//y"], False)


@pytest.mark.parametrize("line", [["--no_such_option", "//x"], ["-j", "0", "//x"], ["run", "//x", "//y"], ["build"]])
def test_mistakes_are_told_and_the_exit_code_is_2(line: list[str], tmp_path: Path) -> None:
    result = build(tmp_path, *line)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and "--help" in result.stderr and "Traceback" not in result.stderr


def test_outside_of_a_workspace_it_says_what_to_do(tmp_path: Path) -> None:
    for line in (["//x"], ["test", "//x"], ["query", "//x"], ["clean"], ["run", "//x"]):
        result = build(tmp_path, *line)
        assert result.returncode == 2 and "is in no workspace" in result.stderr and "WORKSPACE" in result.stderr
    assert build(tmp_path, "-C", "nowhere", "//x").returncode == 2


def test_mistakes_in_build_files_are_told_without_a_traceback(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", {"BUILD": 'genrul(name = "x")\n'}), "//:x")
    assert result.returncode == 1
    assert "BUILD:1" in result.stderr and "genrule" in result.stderr and "Traceback" not in result.stderr
