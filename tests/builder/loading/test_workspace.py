"""WORKSPACE files name the workspace and declare repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

import rules_executorch.builder
from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.loading.workspace import find_workspace

DISTRIBUTION = Path(rules_executorch.builder.__file__).parent.parent


def test_the_nearest_workspace_above_is_found(tmp_path: Path) -> None:
    (tmp_path / "WORKSPACE").write_text('workspace(name = "outer")\n')
    (tmp_path / "inner/a").mkdir(parents=True)
    (tmp_path / "inner/WORKSPACE").write_text('workspace(name = "inner")\n')
    assert find_workspace(tmp_path / "inner/a").name == "inner"
    assert find_workspace(tmp_path / "inner/a").root == tmp_path / "inner"
    assert find_workspace(tmp_path).name == "outer"


def test_outside_of_a_workspace_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is not in a workspace"):
        find_workspace(tmp_path)


def test_the_installed_distribution_is_a_repository_without_being_declared(tmp_path: Path) -> None:
    (tmp_path / "WORKSPACE").write_text("")
    workspace = find_workspace(tmp_path)
    assert workspace.repositories == {"rules_executorch": DISTRIBUTION}
    assert workspace.name == tmp_path.name


def test_a_declared_repository_stands_before_the_installed_one(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "w/WORKSPACE").write_text('local_repository(name = "rules_executorch", path = "../own")\n')
    assert find_workspace(tmp_path / "w").repositories == {"rules_executorch": tmp_path / "own"}


def test_a_workspace_called_rules_executorch_is_that_repository(tmp_path: Path) -> None:
    (tmp_path / "WORKSPACE").write_text('workspace(name = "rules_executorch")\n')
    workspace = find_workspace(tmp_path)
    assert workspace.name == "rules_executorch"
    assert workspace.repositories["rules_executorch"] == workspace.root == tmp_path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workspace()", "1:1: error: workspace() needs 'name'"),
        ("workspace(name = 1)", "1:11: error: 'name' must be a string"),
        ('workspace(name = "1x")', "1:18: error: '1x' cannot name a repository"),
        ('workspace(nam = "x")', "1:11: error: workspace() has no argument 'nam'"),
        ('workspace("x")', "1:1: error: workspace() takes its arguments by name"),
        ('workspace(name = "a")\nworkspace(name = "b")', "2:1: error: the workspace is named twice"),
        ('local_repository(name = "a")', "1:1: error: local_repository() needs 'path'"),
        ('local_repository(name = "a", path = "gone")', "1:37: error: repository 'a': there is no folder 'gone'"),
        ('http_archive(name = "a")', "1:1: error: 'http_archive' is not defined"),
        ('load("//a:b.bzl", "c")', "1:1: error: a WORKSPACE file loads nothing"),
        ('exports_files(["a"])', r"1:1: error: exports_files\(\) has no meaning in a WORKSPACE file"),
        ("workspace(", "error: syntax error: .* is expected here, not end of file"),
        ('glob(["*"])', "glob.. has no meaning in a WORKSPACE file"),
    ],
)
def test_mistakes_in_a_workspace_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "WORKSPACE").write_text(text + "\n")
    with pytest.raises(BuildError, match=message.replace("()", r"\(\)")):
        find_workspace(tmp_path)
