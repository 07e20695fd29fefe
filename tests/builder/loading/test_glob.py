"""glob() finds what its patterns match, and stays in its package."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.loading import load_files, messages, target_of

from rules_executorch.builder.loading.files import Files
from rules_executorch.builder.loading.glob import GlobError, glob, matches, parse_pattern

NAME = st.text(alphabet="ab.x", min_size=1, max_size=4).filter(lambda s: s not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
SEGMENT = st.text(alphabet="ab.x*", min_size=1, max_size=4).filter(
    lambda s: s not in (".", "..") and (s == "**" or "**" not in s)
)
PATTERN = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)


def as_regex(pattern: str) -> str:
    """The meaning of a pattern, said in another way."""
    parts = []
    segments = pattern.split("/")
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            parts.append(r"(?:[^/.][^/]*/)*" + (r"[^/.][^/]*" if last else ""))
        else:
            visible = "" if segment.startswith(".") else r"(?!\.)"
            parts.append(visible + re.escape(segment).replace(r"\*", "[^/]*") + ("" if last else "/"))
    return "".join(parts)


@given(PATTERN, PATH)
@settings(max_examples=1000)
def test_a_pattern_matches_what_its_regular_expression_does(pattern: str, path: str) -> None:
    assert matches(parse_pattern(pattern), path) == bool(re.fullmatch(as_regex(pattern), path))


@given(st.sets(PATH, max_size=8), PATTERN)
@settings(max_examples=200, deadline=None)
def test_walking_finds_exactly_the_files_that_match(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], pattern: str
) -> None:
    root = tmp_path_factory.mktemp("glob")
    for path in paths:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except (FileExistsError, NotADirectoryError):
            # Of two paths one is a folder of the other.
            pass
    present = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    # Hidden folders hold no sources, whatever the pattern.
    visible = {p for p in present if not any(part.startswith(".") for part in p.split("/")[:-1])}
    expected = sorted(p for p in visible if matches(parse_pattern(pattern), p))
    assert glob(Files(), str(root), [pattern], [], allow_empty=True) == expected


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_a_workspace_inside_is_data(tmp_path: Path) -> None:
    files = {"BUILD": 'thing(name = "x", srcs = glob(["cases/**"]))\n'}
    make(tmp_path, "cases/1/WORKSPACE", "cases/1/a/BUILD", "cases/BUILD.txt")
    graph = load_files(tmp_path, files)
    found = [label.name for label in target_of(graph, "//:x").dependencies]
    assert found == ["cases/1/WORKSPACE", "cases/1/a/BUILD", "cases/BUILD.txt"]


def test_other_packages_and_outputs_are_not_entered(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "sub/b.py", "pkg/BUILD", "pkg/c.py", "pkg/deep/d.py")
    make(tmp_path, "build-out/f.py", "__pycache__/g.py", ".git/h.py", ".hidden.py")
    assert glob(Files(), str(tmp_path), ["**/*.py"], [], False) == ["a.py", "sub/b.py"]
    assert glob(Files(), str(tmp_path), ["**"], [], False) == ["a.py", "sub/b.py"]
    assert glob(Files(), str(tmp_path), ["pkg/*.py"], [], True) == []
    assert glob(Files(), str(tmp_path), ["pkg/c.py"], [], True) == []
    assert glob(Files(), str(tmp_path), [".*"], [], False) == [".hidden.py"]


def test_excluded_files_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "a_test.py", "x/b_test.py")
    assert glob(Files(), str(tmp_path), ["**/*.py"], ["**/*_test.py"], False) == ["a.py"]


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    make(tmp_path, "a/x.py", "b/y.py")
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/to_b").symlink_to(tmp_path / "b")
    (tmp_path / "b/to_a").symlink_to(tmp_path / "a")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nothing")
    found = glob(Files(), str(tmp_path), ["**/*.py"], [], False)
    assert {"a/x.py", "b/y.py", "a/to_b/y.py", "b/to_a/x.py"} <= set(found)
    assert len(found) < 10


@pytest.mark.parametrize("pattern", ["", "/a", "a//b", "../a", "a/./b", "a**", "a?"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(GlobError):
        parse_pattern(pattern)


def test_many_stars_take_no_time() -> None:
    started = time.process_time()
    assert not matches(parse_pattern("*a" * 60 + "b"), "a" * 250)
    assert not matches(parse_pattern("**/a/" * 30 + "b"), "a/" * 200 + "c")
    assert time.process_time() - started < 2


def test_an_empty_glob_must_be_meant(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, {"BUILD": 'thing(\n    name = "x",\n    srcs = glob(["*.nothing"]),\n)\n'})
    assert message.startswith("BUILD:3:16: glob: '*.nothing' matches no file in this package")
    graph = load_files(tmp_path, {"BUILD": 'thing(name = "x", srcs = glob(["*.nothing"], allow_empty = True))\n'})
    assert target_of(graph, "//:x").attributes["srcs"] == ()


def test_glob_in_a_macro_is_relative_to_the_package_that_calls(tmp_path: Path) -> None:
    files = {
        "m/BUILD": "",
        "m/m.bzl": 'def all_py(name):\n    native.thing(name = name, srcs = native.glob(["*.py"]))\n',
        "m/not_this.py": "",
        "p/BUILD": 'load("//m:m.bzl", "all_py")\nall_py(name = "x")\n',
        "p/this.py": "",
    }
    graph = load_files(tmp_path, files)
    assert [label.name for label in target_of(graph, "//p:x").attributes["srcs"]] == ["this.py"]
