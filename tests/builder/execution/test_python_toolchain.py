"""The toolchain `python`: what its processes can import, and what they cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rules_executorch.builder.execution.toolchains import host_toolchains

COMMAND = host_toolchains()["python"].command


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, env={}, timeout=120)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_module_runs_as_python_m_would_run_it(tmp_path: Path) -> None:
    _write(tmp_path / "r/p/tool.py", "import sys\nif __name__ == '__main__': print(sys.argv[0].rsplit('/')[-1], sys.argv[1:])")
    result = _run(tmp_path, "--import-root=r/p", "tool", "--x", "--import-root=y")
    assert result.stdout == "tool.py ['--x', '--import-root=y']\n", result.stderr


def test_a_package_runs_its_main(tmp_path: Path) -> None:
    _write(tmp_path / "r/p/__init__.py", "")
    _write(tmp_path / "r/p/__main__.py", "print(__package__)")
    assert _run(tmp_path, "--import-root=r", "p").stdout == "p\n"


def test_sys_path_is_the_roots_the_standard_library_and_site_packages(tmp_path: Path) -> None:
    _write(tmp_path / "r/tool.py", "import sys, json\nprint(json.dumps(sys.path))")
    import json

    path = json.loads(_run(tmp_path, "--import-root=r", "--import-root=.", "tool").stdout)
    assert path[:2] == [str(tmp_path / "r"), str(tmp_path)]
    assert path[-1] == COMMAND[4]
    assert not any(folder.endswith("/execution") for folder in path)


def test_distributions_of_the_toolchain_can_be_imported(tmp_path: Path) -> None:
    _write(tmp_path / "tool.py", "import flatbuffers, pytest; print('ok')")
    assert _run(tmp_path, "--import-root=.", "tool").stdout == "ok\n"


def test_the_installed_rules_executorch_cannot_be_imported(tmp_path: Path) -> None:
    _write(tmp_path / "tool.py", "import rules_executorch.lowering")
    result = _run(tmp_path, "--import-root=.", "tool")
    assert result.returncode == 1
    assert "nothing of rules_executorch is among the inputs: add what is imported to `deps`" in result.stderr


@pytest.mark.parametrize("roots", [(".",), ("other", ".")])
def test_the_declared_rules_executorch_can_be_imported(tmp_path: Path, roots: tuple[str, ...]) -> None:
    _write(tmp_path / "rules_executorch/thing/__init__.py", "where = __file__")
    _write(tmp_path / "tool.py", "import sys; sys.path.append('/x'); import rules_executorch.thing as t; print(t.where)")
    result = _run(tmp_path, *(f"--import-root={root}" for root in roots), "tool")
    assert result.stdout.strip() == str(tmp_path / "rules_executorch/thing/__init__.py"), result.stderr
    _write(tmp_path / "tool.py", "import rules_executorch.thing, rules_executorch.builder")
    assert "No module named 'rules_executorch.builder'" in _run(tmp_path, "--import-root=.", "tool").stderr


def test_hashes_follow_the_environment(tmp_path: Path) -> None:
    _write(tmp_path / "tool.py", "import sys; print(hash('x'), sys.flags.hash_randomization)")
    command = [*COMMAND, "--import-root=.", "tool"]
    runs = {subprocess.run(command, cwd=tmp_path, capture_output=True, env={"PYTHONHASHSEED": "0"}).stdout for _ in "ab"}
    assert len(runs) == 1 and b" 0\n" in runs.pop()
