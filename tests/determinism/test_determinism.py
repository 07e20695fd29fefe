"""The example and models of the zoo give the same bytes, whoever builds them, where and how.

A part of what `python -m support.reproducible` (in tests/) does at full size.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.build_command import build
from support.other_user import UID
from support.reproducible import FEW_CONDITIONS, OTHER_USER, Bench, Condition, differences, digests

NAMES = ["conditional_branch", "gru"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"), NAMES)


@pytest.fixture(scope="module")
def first(bench: Bench) -> dict[str, str]:
    return bench.build(Condition("first"))


def test_there_is_something_to_compare(first: dict[str, str]) -> None:
    assert sum(name.endswith(".pte") for name in first) >= 3 and sum(name.endswith(".edge") for name in first) >= 4


@pytest.mark.parametrize("condition", FEW_CONDITIONS, ids=lambda condition: condition.name)
def test_the_bytes_are_the_same(bench: Bench, first: dict[str, str], condition: Condition) -> None:
    assert differences(first, bench.build(condition)) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_makes_the_same_bytes(bench: Bench, first: dict[str, str]) -> None:
    assert differences(first, bench.build(OTHER_USER)) == []
    assert {path.lstat().st_uid for path in bench.workspace(OTHER_USER).rglob("*")} == {UID}


def test_every_action_makes_the_same_with_another_hash_seed_and_more_threads(bench: Bench, first: dict[str, str]) -> None:
    workspace = bench.workspace(Condition("first"))
    home = workspace.parent / "home"
    result = build(
        workspace, "--check_determinism", *bench.targets, cache=home / "cache", timeout=1200, HOME=str(home)
    )
    assert result.returncode == 0, result.stderr
    assert "made the same bytes twice" in result.stdout
    assert digests(workspace / "build-out") == first


def test_a_difference_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    one = digests(tmp_path)
    (tmp_path / "a").write_text("2")
    assert differences(one, digests(tmp_path)) == ["a"] and differences(one, one) == []
    assert differences(one, {}) == ["a"]
