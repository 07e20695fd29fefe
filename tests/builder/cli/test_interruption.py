"""Builds that are stopped or killed leave nothing half-written, and the next build just goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from support.build_command import build, counts, start, wait_for, write_files


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """An action that writes half of its output, says so, and then waits as long as the file `wait` is there."""
    flags = tmp_path / "flags"
    flags.mkdir()
    (flags / "wait").touch()
    script = (
        f"echo half > $@; echo $$$$ > {flags}/pid.part; mv {flags}/pid.part {flags}/pid; "
        f"while [ -e {flags}/wait ]; do sleep 0.02; done; echo whole > $@"
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


def _running_pid(ws: Path, process) -> int:
    flag = ws.parent / "flags/pid"
    wait_for(flag.exists, process)
    pid = int(flag.read_text())
    flag.unlink()
    return pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_everything_and_leaves_nothing_half_written(ws: Path, number: int) -> None:
    process = start(ws, "//:after")
    pid = _running_pid(ws, process)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 8, err
    assert err.rstrip().endswith("interrupted") and "Traceback" not in err
    assert not _alive(pid)
    assert not (ws / "build-out/slow.txt").exists()
    (ws.parent / "flags/wait").unlink()
    assert counts(build(ws, "//:after")) == (2, 0, 0)
    assert (ws / "build-out/after.txt").read_text() == "whole\n"


def test_a_killed_build_leaves_nothing_half_written(ws: Path) -> None:
    process = start(ws, "//:after")
    pid = _running_pid(ws, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    os.kill(pid, signal.SIGKILL)
    assert not (ws / "build-out/slow.txt").exists()
    (ws.parent / "flags/wait").unlink()
    assert counts(build(ws, "//:after")) == (2, 0, 0)
    assert (ws / "build-out/after.txt").read_text() == "whole\n"
    assert list((ws / "build-out/.state/staging").iterdir()) == []
    assert list((ws.parent / "ws-cache/sandboxes").glob("*/*")) == []


def test_a_second_build_waits_for_the_first(ws: Path) -> None:
    first = start(ws, "//:after")
    _running_pid(ws, first)
    second = start(ws, "//:after")
    line = second.stderr.readline()
    assert "waiting for another build" in line
    (ws.parent / "flags/wait").unlink()
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
