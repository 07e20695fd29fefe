"""Which distributions the toolchain consists of, and which files these are."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.execution import distributions
from rules_executorch.builder.execution.toolchains import host_toolchains, require


def _install(place: Path, name: str, *requirements: str, files: tuple[str, ...] = (), version: str = "1") -> None:
    folder = place / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requirements)]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in (*files, f"{folder.name}/METADATA")))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site-packages of the test's own."""
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib")])
    distributions.closure.cache_clear()
    distributions.distribution_paths.cache_clear()
    importlib.invalidate_caches()
    yield tmp_path / "lib"
    distributions.closure.cache_clear()
    distributions.distribution_paths.cache_clear()


def test_all_that_is_required_belongs_to_it_but_not_what_extras_require(place: Path) -> None:
    _install(place, "a", "B_b>=1", 'extra-only; extra == "more"', 'absent; sys_platform == "win32"')
    _install(place, "b.b", "a", 'c (>=2) ; python_version >= "3"')
    _install(place, "c")
    _install(place, "extra-only")
    assert sorted(distributions.closure(("A",))) == ["a", "b-b", "c"]


def test_what_is_not_installed_is_nothing(place: Path) -> None:
    assert distributions.closure(("nothing",)) == {} and distributions.distribution_paths(("nothing",)) == ()


def test_its_files_are_entries_of_site_packages_and_programs(place: Path) -> None:
    files = ("a/__init__.py", "a/b/c.py", "single.py", "__pycache__/single.cpython-311.pyc", "../bin/tool")
    _install(place, "a", files=files)
    expected = ("__pycache__/single.cpython-311.pyc", "a", "a-1.dist-info", "single.py")
    assert distributions.distribution_paths(("a",)) == tuple(
        sorted([*(str(place / name) for name in expected), str(place.parent / "bin/tool")])
    )


def test_a_required_distribution_is_a_toolchain_with_the_versions_of_all_it_requires(place: Path) -> None:
    _install(place, "a", "b", version="2.5")
    _install(place, "b", version="3.1")
    toolchains = host_toolchains()
    assert "python:a" in toolchains and "python" in toolchains and "nothing" not in toolchains
    assert toolchains["python:a"].identity == "a 2.5\nb 3.1"
    require(toolchains["python:a"], "//p:x")
    with pytest.raises(BuildError, match="(?s)//p:x needs the toolchain 'python:c'.*pip install c"):
        require(toolchains["python:c"], "//p:x")


def test_the_interpreter_is_seen_with_every_link_that_leads_to_it() -> None:
    paths = distributions.interpreter_paths()
    assert sys.executable in paths and os.path.realpath(sys.base_prefix) in paths


def test_the_toolchain_has_its_distributions_and_no_others() -> None:
    names = {Path(path).name for path in host_toolchains()["python"].visible}
    assert {"torch", "numpy", "flatbuffers"} <= names
    assert not {"pip", "rules_executorch"} & names


def test_a_distribution_that_is_installed_anew_is_looked_at_again(place: Path, tmp_path: Path) -> None:
    _install(place, "a", files=("a/x.py",), version="1")
    first = host_toolchains(tmp_path / "memory")["python:a"]
    assert host_toolchains(tmp_path / "memory")["python:a"] == first
    (place / "a-1.dist-info").rename(tmp_path / "gone")
    _install(place, "a", files=("b/x.py",), version="2")
    distributions.closure.cache_clear()
    distributions.distribution_paths.cache_clear()
    second = host_toolchains(tmp_path / "memory")["python:a"]
    assert (first.identity, second.identity) == ("a 1", "a 2")
    assert str(place / "b") in second.visible and str(place / "a") not in second.visible
