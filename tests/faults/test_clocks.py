"""Whatever clocks and the times of files say, builds make what clean ones make."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.build_command import build, start, warm_build, write_files
from support.generated_workspace import GeneratedWorkspace
from support.shifted_clock import ShiftedClock, shifted_clock

DAY = 86400
# Of builds in turn: the machine's own time, an hour and a day later, and set back by a year.
SHIFTS = (0, 3600, DAY, -365 * DAY)


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    clock = shifted_clock(tmp_path / "clock")
    if clock is None:
        pytest.skip("there is no C compiler for the library that shifts the clock")
    return clock


def test_files_whose_times_lie_far_off(tmp_path: Path, how_many: Callable[[int, int], int]) -> None:
    """Those of the builder's own state are among them."""
    workspace = GeneratedWorkspace(tmp_path / "ws", 7)
    chance = workspace.random
    assert warm_build(workspace.root, "//...").returncode == 0
    for number in range(how_many(6, 200)):
        files = [path for path in workspace.root.rglob("*") if path.is_file() and not path.is_symlink()]
        moment = time.time() + chance.choice([-1e9, -1e5, -3600, 3600, 1e5, 1e9])
        _date(chance.sample(files, len(files) // 2), moment)
        done = workspace.edit()
        _date(chance.sample(_sources(workspace), len(_sources(workspace)) // 2), moment)
        result = warm_build(workspace.root, "//...")
        assert result.returncode == 0, (number, moment, done, result.stderr)
        assert workspace.found() == workspace.expected(), (number, moment, done)


def _sources(workspace: GeneratedWorkspace) -> list[Path]:
    return [workspace.root / package / file for package, p in workspace.packages.items() for file in p.files]


def _date(files: list[Path], moment: float) -> None:
    for path in files:
        os.utime(path, (moment, moment))


def test_a_clock_that_is_set_back_and_forth_between_builds(
    tmp_path: Path, clock: ShiftedClock, how_many: Callable[[int, int], int]
) -> None:
    """Some of the builds are killed, and some fail, so that the next one goes on under another clock."""
    workspace = GeneratedWorkspace(tmp_path / "ws", 8)
    chance, duration = random.Random(8), 1.0
    done: list[object] = []

    def build_all(shift: int) -> subprocess.CompletedProcess[str]:
        done.append(f"built at {shift:+}")
        return build(workspace.root, "//...", **clock.variables(shift))

    for number in range(how_many(6, 200)):
        shift, later = chance.choice(SHIFTS), chance.choice(SHIFTS)
        began = time.time() - 1
        done = [*done[-20:], workspace.edit()]
        _date([path for path in _sources(workspace) if path.stat().st_mtime > began], time.time() + shift)
        if chance.random() < 0.3:
            done.append(f"killed at {shift:+}")
            _kill_after(chance.uniform(0, duration), workspace.root, clock.variables(shift))
        elif chance.random() < 0.4:
            take_back = workspace.spoil()
            done.append("spoiled")
            statuses = [build_all(when).returncode for when in (shift, later)]
            assert statuses == [int(workspace.must_fail())] * 2, (number, done)
            take_back()
            done.append("taken back")
        began = time.time()
        result = build_all(later)
        duration = time.time() - began
        assert result.returncode == 0, (number, done, result.stderr)
        assert workspace.found() == workspace.expected(), (number, done)


def _kill_after(seconds: float, root: Path, variables: dict[str, str]) -> None:
    process = start(root, "//...", **variables)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()


_ONE_FAILS = '''
genrule(name = "a", srcs = ["a.txt"], outs = ["a.out"], cmd = "cp $(SRCS) $@")
genrule(name = "b", srcs = [":a"], outs = ["b.out"], cmd = "grep good $(SRCS) > $@")
genrule(name = "c", srcs = [":a"], outs = ["c.out"], cmd = "cp $(SRCS) $@; sleep 0.2")
'''


def test_a_failure_is_no_success_after_the_clock_was_set_back(tmp_path: Path, clock: ShiftedClock) -> None:
    """What the failing build made is older then than what others made of it before; and some it did not come to."""
    root = write_files(tmp_path / "ws", {"p/BUILD": _ONE_FAILS, "p/a.txt": "good\n"})
    assert build(root, "//...", **clock.variables(DAY)).returncode == 0
    (root / "p/a.txt").write_text("bad\n")
    for _ in range(2):
        failed = build(root, "-j1", "//...", **clock.variables(-DAY))
        assert failed.returncode == 1 and "//p:b failed" in failed.stderr, failed.stdout
    (root / "p/BUILD").write_text(_ONE_FAILS.replace("grep good", "grep bad"))
    assert build(root, "//...", **clock.variables(-DAY)).returncode == 0
    assert {(root / f"build-out/p/{name}.out").read_text() for name in "abc"} == {"bad\n"}


def test_what_is_known_already_is_seen_to_be_new_after_the_clock_was_set_back(tmp_path: Path, clock: ShiftedClock) -> None:
    """An action whose result comes from the cache; what reads it has to run."""
    rules = '''
genrule(name = "a", srcs = ["a.txt"], outs = ["a.out"], cmd = "head -c1 $(SRCS) > $@")
genrule(name = "b", srcs = [":a", "b.txt"], outs = ["b.out"], cmd = "cat $(SRCS) > $@")
'''
    root = write_files(tmp_path / "ws", {"p/BUILD": rules, "p/a.txt": "1", "p/b.txt": "old"})
    assert build(root, "//...", **clock.variables(0)).returncode == 0
    (root / "p/a.txt").write_text("2")
    (root / "p/b.txt").write_text("new")
    assert build(root, "//...", **clock.variables(DAY)).returncode == 0
    (root / "p/a.txt").write_text("1")
    assert build(root, "//...", **clock.variables(-DAY)).returncode == 0
    assert (root / "build-out/p/b.out").read_text() == "1new"


def test_the_clock_is_that_of_the_builder_and_of_ninja_and_not_of_actions(tmp_path: Path, clock: ShiftedClock) -> None:
    command = "date +%s > $@; env >> $@; cat /proc/self/maps >> $@"
    root = write_files(tmp_path / "ws", {"BUILD": f'genrule(name = "g", outs = ["out"], cmd = "{command}")'})
    result = build(root, "--build_event_json_file=events", "//:g", **clock.variables(-365 * DAY))
    assert result.returncode == 0, result.stderr
    seen = {name for name, seconds in clock.loaded() if abs(seconds - (time.time() - 365 * DAY)) < 600}
    assert seen >= {"ninja", Path(sys.executable).name} and not seen & {"bash", "date", "env"}
    last_year = time.strftime("%Y-%m", time.gmtime(time.time() - 365 * DAY))
    assert f'"startTime":"{last_year}' in (root / "events").read_text().replace(": ", ":")
    last = (root / "build-out/.state/.ninja_log").read_text().splitlines()[-1]
    assert time.strftime("%Y-%m", time.gmtime(int(last.split("\t")[2]) / 1e9)) == last_year
    printed = (root / "build-out/out").read_text()
    assert abs(int(printed.splitlines()[0]) - time.time()) < 600
    assert "LD_PRELOAD" not in printed and "clock.so" not in printed
