"""What the README tells people to type works, in a fresh copy of the checkout."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.readme import blocks

from .conftest import PRODUCT, ROOT

EXAMPLES = next(folder for folder in (ROOT / "examples", ROOT.parent / "examples") if folder.is_dir())
COMMANDS = [line for language, code in blocks(ROOT / "README.md", "Try it") if language == "sh" for line in code.splitlines()]
# It is the command that runs this test, so it is not run again inside.
ALL_TESTS = "./buildw test //..."

# As pip makes it; where it finds the package, `run` says.
_BUILD = """#!{python}
import sys
from rules_executorch.builder.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a clone has, and a `.venv` with this interpreter, which `buildw` takes for one that it has made."""
    folder = tmp_path_factory.mktemp("readme") / "rules_executorch"
    ignored = shutil.ignore_patterns("build-out", "__pycache__")
    for source in (EXAMPLES, *(ROOT / name for name in PRODUCT)):
        shutil.copytree(source, folder / source.name, ignore=ignored)
    for name in ("buildw", "pyproject.toml", "README.md", "WORKSPACE", "BUILD"):
        shutil.copy(ROOT / name, folder / name)
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "build").write_text(_BUILD.format(python=sys.executable))
    (programs / "build").chmod(0o755)
    files = b"".join((folder / name).read_bytes() for name in ("buildw", "pyproject.toml", "builder/bootstrap.py"))
    checksum = subprocess.run(["cksum"], input=files, capture_output=True, check=True).stdout.decode().strip()
    (folder / ".venv/.installed").write_text(f"{checksum} {folder.resolve()}\n")
    return folder


def run(checkout: Path, command: str) -> subprocess.CompletedProcess[str]:
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(checkout.parent),
        "RULES_EXECUTORCH_CACHE": str(home / "cache"),
    }
    return subprocess.run(["sh", "-c", command], cwd=checkout, env=environment, capture_output=True, text=True, timeout=900)


def test_the_commands_of_the_readme_work_in_their_order(checkout: Path) -> None:
    assert ALL_TESTS in COMMANDS
    said = {}
    for command in COMMANDS:
        if command != ALL_TESTS:
            done = run(checkout, command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            said[command] = done.stdout
    answers = [out.strip().splitlines()[-1] for command, out in said.items() if " run " in command]
    assert answers == ["2021-03-03"]


def test_ci_runs_the_test_command_of_the_readme_without_cached_results() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    last = shlex.split(script.strip().splitlines()[-1])
    assert last[0] == "exec"
    assert [word for word in last[1:] if word != "--nocache_test_results"] == shlex.split(ALL_TESTS)
    assert "--nocache_test_results" in last
