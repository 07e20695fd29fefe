"""Builds that are stopped or killed leave nothing half-written, and the next build just goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from support.build_command import build, parent_of_sleep, start, write_files


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# How long a process sleeps that says that an action has written half of its output.
HALF_WRITTEN = "1000.8151"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """An action that writes half of its output, and then waits for SIGUSR1."""
    script = (
        "go=; trap 'go=1' USR1; echo half > $@; "
        f"sleep {HALF_WRITTEN} & until [ $$go ]; do sleep 0.02; done; echo whole > $@"
    )
    return write_files(
        tmp_path / "ws",
        {
            "BUILD": f"""
genrule(name = "slow", outs = ["slow.txt"], cmd = "{script}")
genrule(name = "after", srcs = [":slow"], outs = ["after.txt"], cmd = "cp $< $@")
"""
        },
    )


def _build_to_the_end(ws: Path) -> str:
    """Build; what it says."""
    process = start(ws, "//:after")
    os.kill(parent_of_sleep(HALF_WRITTEN, process), signal.SIGUSR1)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_everything_and_leaves_nothing_half_written(ws: Path, number: int) -> None:
    process = start(ws, "//:after")
    pid = parent_of_sleep(HALF_WRITTEN, process)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 8, err
    assert err.rstrip().endswith("interrupted") and "Traceback" not in err
    assert not _alive(pid)
    assert not (ws / "build-out/slow.txt").exists()
    assert "2 ran, 0 from the cache" in _build_to_the_end(ws)
    assert (ws / "build-out/after.txt").read_text() == "whole\n"


def test_a_killed_build_leaves_nothing_half_written(ws: Path) -> None:
    process = start(ws, "//:after")
    pid = parent_of_sleep(HALF_WRITTEN, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    while _alive(pid):  # the kernel takes a moment
        time.sleep(0.005)
    assert not (ws / "build-out/slow.txt").exists()
    assert "2 ran, 0 from the cache" in _build_to_the_end(ws)
    assert (ws / "build-out/after.txt").read_text() == "whole\n"
    assert list((ws / "build-out/.state/staging").iterdir()) == []
    assert list((ws.parent / "ws-cache/sandboxes").glob("*/*")) == []


def test_a_second_build_waits_for_the_first(ws: Path) -> None:
    first = start(ws, "//:after")
    pid = parent_of_sleep(HALF_WRITTEN, first)
    second = start(ws, "//:after")
    line = second.stderr.readline()
    assert "waiting for another build" in line
    os.kill(pid, signal.SIGUSR1)
    assert first.communicate(timeout=60) and first.returncode == 0
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0 and "2 up to date" in out


def test_builds_killed_at_random_moments_never_leave_a_wrong_output(tmp_path: Path) -> None:
    rules = [
        f'genrule(name = "g{n}", srcs = {[f":g{n - 1}"] if n else ["seed.txt"]}, outs = ["o{n}"], '
        f'cmd = "for i in 1 2 3 4 5 6 7 8; do cat $<; echo {n}; done > $@")'
        for n in range(4)
    ]
    ws = write_files(tmp_path / "ws", {"BUILD": "\n".join(rules), "seed.txt": "0\n"})
    for round_ in range(12):
        (ws / "seed.txt").write_text(f"{round_}\n")
        process = start(ws, "//...")
        time.sleep(0.04 * round_)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert build(ws, "//...").returncode == 0
    interrupted = [(ws / f"build-out/o{n}").read_bytes() for n in range(4)]
    clean = write_files(tmp_path / "clean", {"BUILD": "\n".join(rules), "seed.txt": f"{round_}\n"})
    assert build(clean, "//...").returncode == 0
    assert interrupted == [(clean / f"build-out/o{n}").read_bytes() for n in range(4)]
