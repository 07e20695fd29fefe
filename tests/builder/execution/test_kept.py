"""What an action keeps is found by later ones, as long as the code that made it is the same."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from rules_executorch.builder.cache.disk import DiskActionCache, DiskStore
from rules_executorch.builder.cache.file_digests import FileDigests
from rules_executorch.builder.core.action import Action, Artifact
from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.kept import keep
from rules_executorch.builder.execution.layout import Layout
from rules_executorch.builder.execution.probe import find_mode
from rules_executorch.builder.execution.processes import Processes
from rules_executorch.builder.execution.runner import How, Machine, run_action
from rules_executorch.builder.execution.toolchains import host_toolchains

# Says what was kept before, and keeps what it is given.
_SCRIPT = (
    "cat .toolchain/kept/* > w/p/out 2>/dev/null || true; mkdir -p ~/kept; cp w/p/in ~/kept/$(cat w/p/in); "
    "if touch .toolchain/kept/forged 2>/dev/null; then exit 3; fi"
)


@pytest.fixture(params=["best", "forest"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    store = DiskStore(tmp_path / "cache")
    (tmp_path / "ws/p").mkdir(parents=True)
    mode = Mode.FOREST if request.param == "forest" else find_mode(None, tmp_path / "probe")
    return Machine(
        Layout(tmp_path / "ws", "w"),
        host_toolchains(),
        store,
        DiskActionCache(tmp_path / "cache", store),
        FileDigests(tmp_path / "digests.sqlite"),
        Processes(),
        tmp_path / "sandboxes",
        lambda: mode,
        kept=tmp_path / "kept",
    )


def _run(machine: Machine, text: str, code: str, *, keeps: bool = True) -> str:
    """What the action said that it found."""
    inputs = []
    for name, content in (("in", text), ("code", code)):
        path = machine.layout.root / "p" / name
        path.write_text(content)
        inputs.append(Artifact(f"w/p/{name}", path))
    action = Action("Genrule", "shell", ("-ec", _SCRIPT), tuple(inputs), (Artifact("w/p/out"),))
    if keeps:
        action = dataclasses.replace(action, keeps_for=(inputs[1],))
    script = _SCRIPT if machine.mode() is not Mode.FOREST else _SCRIPT.partition("; if touch")[0]
    assert run_action(machine, dataclasses.replace(action, argv=("-ec", script)), use_cache=False).how is How.RAN
    return machine.layout.output("w/p/out").read_text()


def test_a_later_action_finds_what_an_earlier_one_kept(machine: Machine) -> None:
    assert _run(machine, "one", "code") == ""
    assert _run(machine, "two", "code") == "one"
    assert _run(machine, "three", "code") == "onetwo"


def test_an_empty_file_says_that_what_is_kept_was_used(machine: Machine) -> None:
    _run(machine, "one", "code")
    _run(machine, "two", "code")
    assert machine.kept
    kept = {path.name: path for path in machine.kept.glob("*/*")}
    for path in kept.values():
        os.utime(path, (1e9, 1e9))
    left = machine.layout.root / "left"
    left.mkdir()
    for name in ("one", "evicted"):
        (left / name).touch()
    keep(left, kept["one"].parent)
    assert kept["one"].read_text() == "one" and kept["one"].stat().st_mtime > 1e9
    assert kept["two"].stat().st_mtime == 1e9 and len(list(machine.kept.glob("*/*"))) == 2


def test_other_code_finds_nothing(machine: Machine) -> None:
    _run(machine, "one", "code")
    assert _run(machine, "two", "other code") == ""
    assert _run(machine, "three", "code") == "one"


def test_an_action_that_does_not_ask_finds_nothing(machine: Machine) -> None:
    _run(machine, "one", "code")
    assert _run(machine, "two", "code", keeps=False) == ""
