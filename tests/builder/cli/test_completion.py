"""What the shells complete, asked of the command, and of bash itself."""

from __future__ import annotations

import shlex
import shutil
import subprocess
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


def _bash(ws: Path, line: str) -> list[str]:
    """What bash's completion offers for a line; `build` is this project's command."""
    (ws.parent / "bin").mkdir(exist_ok=True)
    program = ws.parent / "bin/build"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(BUILD)} \"$@\"\n")
    program.chmod(0o755)
    script = f"""
compopt() {{ :; }}
eval "$(build completion bash)"
COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}
_build_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    env = environment(ws.parent / "cache", PATH=f"{program.parent}:/usr/bin:/bin")
    result = subprocess.run(["bash", "-c", script], cwd=ws, env=env, capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_bash_gets_what_follows_the_last_colon(ws: Path) -> None:
    assert _bash(ws, "build //models:da") == ["data", "dates"]
    assert "top" in _bash(ws, "build ")
    assert _bash(ws, "build --color=") == ["auto", "no", "yes"]


def test_the_scripts_are_scripts(ws: Path) -> None:
    for shell in ("bash", "zsh"):
        script = build(ws, "completion", shell).stdout
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)
        assert f"completion {shell}" in script
