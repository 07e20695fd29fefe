"""What is shown while a build goes on: a moving display on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from support.build_command import BUILD, build, environment, write_files

SLOW = {
    "BUILD": """
genrule(name = "slow", outs = ["o"], cmd = "sleep 0.5; echo careful; touch $@")
genrule(name = "bad", outs = ["b"], cmd = "echo went wrong; exit 1")
"""
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(tmp_path / "ws", SLOW)


def _on_a_terminal(ws: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of `build` and all that it drew on a terminal of its own."""
    master, slave = pty.openpty()
    env = environment(ws.parent / "cache", TERM="xterm", COLUMNS="100", LINES="30")
    with subprocess.Popen([*BUILD, *arguments], cwd=ws, env=env, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        drawn = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the last process has closed the terminal
                break
            if not piece:
                break
            drawn += piece
    os.close(master)
    return process.returncode, drawn.decode()


def test_a_terminal_shows_what_runs_now(ws: Path) -> None:
    code, drawn = _on_a_terminal(ws, "//:slow")
    assert code == 0
    assert "1 running" in drawn and "Genrule //:slow (0 s)" in drawn
    assert "Genrule //:slow printed:\r\ncareful" in drawn
    assert "1 action: 1 ran" in drawn


def test_a_terminal_shows_failures_in_full(ws: Path) -> None:
    code, drawn = _on_a_terminal(ws, "//:bad")
    assert code == 1
    assert "failed with exit status 1\r\nwent wrong" in drawn and "\033[1;31merror:" in drawn


def test_a_log_gets_a_line_for_each_action_that_runs(ws: Path) -> None:
    first, second = build(ws, "//:slow"), build(ws, "//:slow")
    assert "Genrule //:slow" in first.stderr and "\033" not in first.stderr + first.stdout
    assert second.stderr == ""


def test_noprogress_says_only_what_came_of_it(ws: Path) -> None:
    result = build(ws, "--noprogress", "//:slow")
    assert result.stderr == "Genrule //:slow printed:\ncareful\n"


def test_colors_can_be_asked_for(ws: Path) -> None:
    assert "\033[1;31merror:" in build(ws, "--color=yes", "//:bad").stderr
    assert "\033" not in build(ws, "--color=auto", "//:bad").stderr
