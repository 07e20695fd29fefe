"""What is shown while a build goes on: a moving display on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest
from rules_executorch.builder.commands.console import Console
from rules_executorch.builder.commands.progress import Lines
from rules_executorch.builder.core.action import Action, Artifact
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


def test_a_terminal_shows_tests_while_they_run(tmp_path: Path) -> None:
    files = {
        "BUILD": 'py_test(name = "t", srcs = ["t.py"])\n',
        "t.py": "import time\ndef test_it(): time.sleep(0.5)\n",
    }
    code, drawn = _on_a_terminal(write_files(tmp_path / "tests", files), "test", "//:t")
    assert code == 0
    assert "Test //:t (0 s)" in drawn and drawn.index("1 running") < drawn.index("passed")


def test_a_log_names_what_has_been_running_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(Console(progress=False))
    clock = iter(range(0, 1000, 50))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    for number in range(3):
        lines.running(Action("Genrule", "shell", (), (), (Artifact(f"w/{number}"),), owner=f"//:{number}"))
    assert lines.still_running(60) == "Genrule //:0 (150 s), Genrule //:1 (100 s)"
    lines.ended(Action("Genrule", "shell", (), (), (Artifact("w/0"),)))
    assert lines.still_running(60) == "Genrule //:1 (150 s), Genrule //:2 (100 s)"
    assert lines.still_running(1000) == ""
