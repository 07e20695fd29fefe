"""The folders that an action's sandbox is made of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.sandbox import Command, lay_out


@pytest.mark.parametrize("can_link", [True, False])
def test_each_input_has_an_empty_place_whether_files_can_be_linked_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_link: bool
) -> None:
    def no_link(source: Path, destination: Path) -> None:
        raise OSError("too many links")

    if not can_link:
        monkeypatch.setattr(os, "link", no_link)
    source = tmp_path / "source"
    source.write_text("content")
    command = Command(("true",), {}, {"w/a": source, "w/p/b": source}, {}, outputs=("w/q/out",))
    root = lay_out(command, tmp_path / "sandbox", Mode.NAMESPACES)
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == ["w", "w/a", "w/p", "w/p/b", "w/q"]
    assert (root / "w/a").read_bytes() == (root / "w/p/b").read_bytes() == b""
    assert (root / "w/a").samefile(root / "w/p/b") == can_link
