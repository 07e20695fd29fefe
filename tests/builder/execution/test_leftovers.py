"""What an action leaves in its execution root, and where links among its outputs lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.builder.execution.leftovers import COPIED_AT, find_output, leftovers
from rules_executorch.builder.execution.namespaces import ROOT


def _file(root: Path, path: str, text: str = "x") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (COPIED_AT, COPIED_AT))
    return file


def test_what_is_declared_and_untouched_is_nothing(tmp_path: Path) -> None:
    inputs = {"w/p/in": _file(tmp_path, "w/p/in")}
    _file(tmp_path, "w/p/out")
    _file(tmp_path, ".programs/0/tool")
    assert leftovers(tmp_path, inputs, ("w/p/out",), copied=True) == leftovers(tmp_path / "w", {}, ("p/in", "p/out"), copied=True)


def test_what_is_visible_elsewhere_is_nobodys_output_where_that_is_an_execution_root(tmp_path: Path) -> None:
    """A build that is itself an action runs from /run/build/root, and so its launcher stands in its actions' roots."""
    _file(tmp_path, "w/launcher.py")
    visible = (f"{ROOT}/w/launcher.py", "/usr/bin/c++")
    assert leftovers(tmp_path, {}, (), visible, copied=False).undeclared == ()
    assert leftovers(tmp_path, {}, (), copied=False).undeclared == ("w/launcher.py",)


def test_inputs_that_are_written_to_or_gone_are_changed(tmp_path: Path) -> None:
    inputs = {path: _file(tmp_path, path) for path in ("w/same", "w/written", "w/gone")}
    (tmp_path / "w/written").write_text("y")
    (tmp_path / "w/gone").unlink()
    assert leftovers(tmp_path, inputs, (), copied=True).changed == ("w/gone", "w/written")


def test_what_nobody_declared_is_found_in_any_folder(tmp_path: Path) -> None:
    for path in ("top", "w/a", "w/deep/er/b"):
        _file(tmp_path, path)
    assert leftovers(tmp_path, {}, ("w/a",), copied=False).undeclared == ("top", "w/deep/er/b")


def test_an_output_may_be_a_link_to_an_input_or_to_a_file_in_the_root(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("input")
    root = tmp_path / "root"
    for path in ("w/p/in", "w/made"):
        _file(root, path)
    (root / "w/p/relative").symlink_to("in")
    (root / "w/p/absolute").symlink_to(f"{ROOT}/w/p/in")
    (root / "w/p/made").symlink_to("../made")
    (root / "w/folder").symlink_to("p")
    files = {"w/p/in": source}
    for path in ("w/p/in", "w/p/relative", "w/p/absolute", "w/folder/relative"):
        assert find_output(root, path, files) == source
    assert find_output(root, "w/p/made", files) == root / "w/made"


@pytest.mark.parametrize("target", ["/etc/hostname", "../../../outside", "loop", "nothing"])
def test_a_link_that_leads_out_or_nowhere_is_no_output(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("secret")
    root = tmp_path / "root"
    (root / "w/p").mkdir(parents=True)
    (root / "w/p/loop").symlink_to(target)
    assert find_output(root, "w/p/loop", {}) is None


_NAMES = st.sampled_from(["a", "b", "c", ".."])
_TARGETS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join) | st.sampled_from(["/etc/passwd", "/", f"{ROOT}/a"])


@given(links=st.dictionaries(st.sampled_from(["a", "b/a", "b/b", "b/c/a"]), _TARGETS))
def test_whatever_the_links_what_is_found_is_in_the_root(tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]) -> None:
    root = tmp_path_factory.mktemp("root") / "in" / "side"
    for folder in ("", "b", "b/c"):
        (root / folder).mkdir(parents=True)
    (root / "b/c/real").write_text("x")
    (root.parent / "a").write_text("outside")
    for path, target in links.items():
        (root / path).symlink_to(target)
    for path in (*links, "b/c/real", "b/a/real"):
        found = find_output(root, path, {})
        assert found is None or Path(os.path.realpath(found)).is_relative_to(os.path.realpath(root))
