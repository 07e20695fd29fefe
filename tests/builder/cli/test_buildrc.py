"""Options kept in .buildrc: which are meant when, and what a mistake there gets told."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.build_command import build, counts, write_files

from rules_executorch.builder.commands.options import parse
from rules_executorch.builder.core.diagnostics import UsageError


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace that one is in, and a home without options."""
    root = write_files(tmp_path / "ws", {"BUILD": 'genrule(name = "x", outs = ["o"], cmd = "touch $@")\n'})
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)
    return root


def _parse(ws: Path, text: str, *words: str) -> argparse.Namespace:
    (ws / ".buildrc").write_text(text)
    return parse(list(words))


def test_verbs_inherit_sections_as_in_bazel(ws: Path) -> None:
    text = "common --color=no\nbuild --jobs 3 # three\ntest --test_output=all\nrun -k\nquery --output=graph\n"
    built, tested, ran = (_parse(ws, text, verb, "//:x") for verb in ("build", "test", "run"))
    assert [o.jobs for o in (built, tested, ran)] == [3, 3, 3]
    assert [o.color for o in (built, tested, ran)] == ["no"] * 3
    assert [o.keep_going for o in (built, tested, ran)] == [False, False, True]
    assert tested.test_output == "all"
    assert _parse(ws, text, "query", "//:x").output == "graph"


def test_common_options_are_meant_where_the_verb_has_them(ws: Path) -> None:
    text = "common --output graph --jobs=2\n"
    assert _parse(ws, text, "//:x").jobs == 2
    assert _parse(ws, text, "query", "//:x").output == "graph"


def test_the_command_line_has_the_last_word_and_more_special_sections_come_later(ws: Path) -> None:
    text = "test --jobs=4\nbuild --jobs=3 --explain --noworkers\n"
    assert _parse(ws, text, "test", "//:x").jobs == 4
    options = _parse(ws, text, "test", "-j5", "--noexplain", "--workers", "//:x")
    assert (options.jobs, options.explain, options.workers) == (5, False, True)


def test_the_users_own_file_comes_after_the_workspaces(ws: Path) -> None:
    Path(os.environ["HOME"], ".buildrc").write_text("build --jobs=7\n")
    assert _parse(ws, "build --jobs=3 -k\n", "//:x").jobs == 7
    assert _parse(ws, "build --jobs=3 -k\n", "//:x").keep_going


def test_a_config_has_options_of_its_own(ws: Path) -> None:
    text = "build --jobs=3\nbuild:ci --jobs=4 --noprogress\ntest:ci --test_output=all\nbuild:both --config=ci -k\n"
    assert _parse(ws, text, "//:x").jobs == 3
    for words in (["--config=ci", "//:x"], ["//:x", "--config", "ci"]):
        options = _parse(ws, text, *words)
        assert (options.jobs, options.progress, options.config) == (4, False, ["ci"])
    options = _parse(ws, text, "test", "--config=both", "//:x")
    assert (options.jobs, options.test_output, options.keep_going) == (4, "all", True)
    assert options.config == ["both", "ci"] and options.sections == ("both", "ci")


def test_words_after_two_dashes_are_the_programs(ws: Path) -> None:
    options = _parse(ws, "build:ci --jobs=4\n", "run", "//:x", "--", "--config=ci")
    assert options.jobs != 4 and options.arguments == ["--config=ci"]


def test_other_files_can_be_imported_and_lines_go_on_after_a_backslash(ws: Path) -> None:
    (ws / "ci").mkdir()
    (ws / "ci/options").write_text("build --jobs \\\n  4\ntry-import nothing\n")
    assert _parse(ws, "import %workspace%/ci/options\n", "//:x").jobs == 4
    assert _parse(ws, "try-import ci/options\ntry-import ci/missing\n", "//:x").jobs == 4


def test_rc_files_can_be_ignored(ws: Path) -> None:
    assert _parse(ws, "build --jobs=three\n", "--ignore_all_rc_files", "-j1", "//:x").jobs == 1


@pytest.mark.parametrize(
    ("text", "words", "message", "line"),
    [
        ("\nbuild --jbos=3", [], "'--jbos=3' is no option of `build build`", 2),
        ("common --nothing", [], "'--nothing' is no option of any verb", 1),
        ("build --jobs=three", [], "argument -j/--jobs: 'three' is not a number above 0", 1),
        ("build --jobs", [], "argument -j/--jobs: expected one argument", 1),
        ("build //:x", [], "'//:x' is no option", 1),
        ("biuld --explain", [], "'biuld' is no section", 1),
        ('build --disk_cache="x', [], "a quotation mark has no second", 1),
        ("import nowhere", [], "there is no file", 1),
        ("import .buildrc", [], "imports itself", 1),
        ("import a b", [], "'import' takes one file", 1),
        ("build:a --config=b\nbuild:b --config=a", ["--config=a"], "a → b → a", 2),
    ],
)
def test_a_mistake_is_told_with_its_place(ws: Path, text: str, words: list[str], message: str, line: int) -> None:
    with pytest.raises(UsageError) as error:
        _parse(ws, f"{text}\n", *words, "//:x")
    (diagnostic,) = error.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location and diagnostic.location.line == line
    assert diagnostic.location.file == str(ws / ".buildrc")


def test_mistakes_in_lines_that_are_not_meant_do_not_matter(ws: Path) -> None:
    assert _parse(ws, "run:far --nothing\n", "//:x").jobs


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="build:cotesimpr-=\"'\\# \n\tx1\0é%", max_size=60))
def test_any_file_is_read_or_is_a_mistake_with_a_place(ws: Path, text: str) -> None:
    try:
        _parse(ws, text, "//:x")
    except UsageError as error:
        assert error.diagnostics


def test_a_build_takes_its_options_from_there(ws: Path) -> None:
    (ws / ".buildrc").write_text("build --explain\nbuild:quiet --noexplain --noprogress\n")
    assert "no earlier run of it is known here" in build(ws, "//:x").stderr
    result = build(ws, "--config=quiet", f"--disk_cache={ws}/../other", "//:x")
    assert result.returncode == 0 and counts(result) == (0, 0, 1) and result.stderr == ""
    mistaken = build(ws, "--config=quite", "//:x")
    assert mistaken.returncode == 2 and "--config quite: no config_setting" in mistaken.stderr


def test_a_file_that_comes_after_a_build_is_seen_by_the_next(ws: Path) -> None:
    build(ws, "//:x"), build(ws, "//:x")
    (ws / ".buildrc").write_text("build --nothing\n")
    assert build(ws, "//:x").returncode == 2
