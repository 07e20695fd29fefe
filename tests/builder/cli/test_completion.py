"""What the shells complete, asked of the command, and of bash and zsh themselves."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.build_command import BUILD, build, environment, write_files

from rules_executorch.builder.commands.completion import candidates

RULE = 'genrule(name = "{0}", outs = ["{0}.txt"], cmd = "touch $@")\n'


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_files(
        tmp_path / "ws",
        {
            "BUILD": RULE.format("top"),
            "models/BUILD": RULE.format("dates") + RULE.format("data"),
            "models/deep/er/BUILD": RULE.format("x"),
            "docs/text.md": "",
            "tools/BUILD": 'load(":m.bzl", "made")\nmade(name = "by_macro")\npy_test(name = "t", srcs = ["t.py"])\n',
            "tools/m.bzl": f"def made(name):\n    {RULE.strip().replace(chr(34) + '{0}' + chr(34), 'name', 1)}\n",
            "broken/BUILD": "genrule(",
            ".buildrc": "build:ci --jobs=1\n",
        },
    )
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path))
    return root


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["te"], ["test"]),
        (["//mo"], ["//models/", "//models:"]),
        (["//models/"], ["//models/deep/"]),
        (["//models/deep/"], ["//models/deep/er/", "//models/deep/er:"]),
        (["//d"], []),
        (["//models:da"], ["//models:data", "//models:dates"]),
        (["-k", "-//models:dat"], ["-//models:data", "-//models:dates"]),
        ([":t"], [":top"]),
        (["-C", "models", ":dat"], [":data", ":dates"]),
        (["build", "models:da"], ["models:data", "models:dates"]),
        (["//tools:by"], ["//tools:by_macro"]),
        (["test", "//tools:"], ["//tools:all", "//tools:t"]),
        (["//broken:"], ["//broken:all"]),
        (["--sandbox="], ["--sandbox=forest", "--sandbox=landlock", "--sandbox=namespaces"]),
        (["--color", "y"], ["yes"]),
        (["--config="], ["--config=ci"]),
        (["--keep"], ["--keep_going"]),
        (["--disk"], ["--disk_cache="]),
        (["test", "--test_o"], ["--test_output="]),
        (["help", "q"], ["query"]),
        (["inspect", "x"], []),
        (["run", "//:top", "--", "x"], []),
    ],
)
def test_what_a_word_may_become(ws: Path, words: list[str], expected: list[str]) -> None:
    assert candidates(words) == expected


def test_outside_of_a_workspace_verbs_and_options_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert candidates(["cl"]) == ["clean"] and candidates(["//"]) == []


def _with_command(ws: Path) -> dict[str, str]:
    """An environment in which `build` is this project's command."""
    (ws.parent / "bin").mkdir(exist_ok=True)
    program = ws.parent / "bin/build"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(BUILD)} \"$@\"\n")
    program.chmod(0o755)
    return environment(ws.parent / "cache", PATH=f"{program.parent}:/usr/bin:/bin")


def _bash(ws: Path, line: str) -> list[str]:
    """What bash's completion offers for a line."""
    script = f"""
compopt() {{ :; }}
eval "$(build completion bash)"
COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}
_build_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    command = ["bash", "-c", script]
    result = subprocess.run(command, cwd=ws, env=_with_command(ws), capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_bash_gets_what_follows_the_last_colon(ws: Path) -> None:
    assert _bash(ws, "build //models:da") == ["data", "dates"]
    assert "top" in _bash(ws, "build ")
    assert _bash(ws, "build --color=") == ["auto", "no", "yes"]


def _zsh(ws: Path, typed: str, expected: str) -> str:
    """What a terminal shows in which a user of zsh types, up to `expected` or to the end of the user's patience."""
    setup = """autoload -U compinit; compinit -D -u; eval "$(build completion zsh)"; PS1=rea"dy> "\n"""
    child, terminal = pty.fork()
    if not child:
        os.chdir(ws)
        os.execve("/usr/bin/env", ["env", "zsh", "-f", "-i"], {**_with_command(ws), "TERM": "dumb", "ZDOTDIR": str(ws)})
    shown, deadline = "", time.monotonic() + 20
    try:
        for send, wanted in ((setup, "ready> "), (typed, expected)):
            os.write(terminal, send.encode())
            seen = len(shown)
            while wanted not in shown[seen:] and time.monotonic() < deadline:
                if select.select([terminal], [], [], 1)[0]:
                    printed = os.read(terminal, 4096).decode(errors="replace")
                    shown += re.sub(r"\x1b\[\??\w+|[\a\r]", "", printed)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    return shown.rpartition("ready> ")[2]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("build //models:date\t", "build //models:dates "),
        ("build //mo\t", "build //models"),
        ("build te\t", "build test "),
        ("build --color=a\t", "build --color=auto "),
    ],
)
def test_zsh_completes(ws: Path, typed: str, completed: str) -> None:
    assert completed in _zsh(ws, typed, completed)


def test_the_scripts_are_scripts(ws: Path) -> None:
    for shell in ("bash", "zsh"):
        script = build(ws, "completion", shell).stdout
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)
        assert f"completion {shell}" in script
