"""The distribution as users install it: a wheel in an environment of its own, and a workspace anywhere."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

from support.readme import blocks

from .conftest import ROOT, Installed


def test_the_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    packed = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    suffixes = {".py", ".bzl", ".cc", ".h", ".sh", ".txt"}
    expected = set()
    for folder in ("backends", "builder", "lowering", "rules", "runtime"):
        for file in (ROOT / folder).rglob("*"):
            kept = file.suffix in suffixes or file.name in ("BUILD", "README.md")
            if file.is_file() and kept and "__pycache__" not in file.parts:
                expected.add(f"rules_executorch/{file.relative_to(ROOT).as_posix()}")
    assert packed == expected


def test_a_workspace_anywhere_uses_the_installed_rules_as_the_readme_shows(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "WORKSPACE").touch()
    written = [code for language, code in blocks(ROOT / "README.md", "In your monorepo") if language == "python"]
    for code in written:
        name = re.match(r"# (\S+)\n", code)
        assert name, "each file in the README starts with its path"
        path = tmp_path / name.group(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    built = installed.build(tmp_path, "//models:two")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "build-out/models/two.pte").read_bytes()[4:8] == b"ET12"
    tested = installed.build(tmp_path, "test", "//models:two_test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "\n1 passed, 0 failed\n" in "\n" + tested.stdout


def test_the_engine_is_importable_without_the_builder(installed: Installed) -> None:
    code = "import sys, rules_executorch.lowering as l; l.to_edge; print(any(m.startswith('rules_executorch.builder') for m in sys.modules))"
    done = subprocess.run([str(installed.folder / "bin" / "python"), "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr
