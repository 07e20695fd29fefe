"""What is found out about the machine is found once, until what it was found from changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules_executorch.builder.execution import probe
from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.remembered import remembered


def test_an_answer_is_found_again_only_when_it_may_be_another(tmp_path: Path) -> None:
    asked: list[int] = []

    def find() -> list[int]:
        asked.append(1)
        return [len(asked)]

    file = tmp_path / "folder" / "answer.json"
    assert [remembered(file, ["a", 1], find) for _ in range(3)] == [[1]] * 3
    assert remembered(file, ["a", 2], find) == [2]
    file.write_text(file.read_text()[:-3])
    assert remembered(file, ["a", 2], find) == [3]
    assert [path.name for path in file.parent.iterdir()] == ["answer.json"]
    assert remembered(None, ["a", 2], find) == [4]


def test_what_could_not_be_found_is_not_remembered(tmp_path: Path) -> None:
    assert remembered(tmp_path / "answer.json", 1, lambda: None) is None
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_the_memory_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert remembered(tmp_path / "file" / "answer.json", 1, lambda: "found") == "found"


def test_namespaces_are_tried_once_until_the_rules_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Mode] = []
    works = {Mode.NAMESPACES: True, Mode.LANDLOCK: True}

    def why_not(mode: Mode, folder: Path) -> str | None:
        tried.append(mode)
        return None if works[mode] else "forbidden"

    monkeypatch.setattr(probe, "why_not", why_not)
    found = [probe.find_mode(None, tmp_path / "sandboxes", tmp_path / "memory") for _ in range(3)]
    assert found == [Mode.NAMESPACES] * 3 and tried == [Mode.NAMESPACES]
    works[Mode.NAMESPACES] = False
    monkeypatch.setattr(probe, "_rules", lambda: ["other rules"])
    found = [probe.find_mode(None, tmp_path / "sandboxes", tmp_path / "memory") for _ in range(2)]
    assert found == [Mode.LANDLOCK] * 2 and tried[1:] == [Mode.NAMESPACES, Mode.LANDLOCK] * 2
