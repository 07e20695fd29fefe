"""The example monorepo in a copy of the checkout, built there by the command `build`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.build_command import build

ROOT = Path(__file__).resolve().parent.parent.parent
# In a checkout; or where a test target sees the repository of that name.
EXAMPLES = next(folder for folder in (ROOT / "examples", ROOT.parent / "examples") if folder.is_dir())
MODELS = EXAMPLES / "models"


@dataclass(frozen=True)
class Monorepo:
    """examples/ in a copy of the checkout; `cache` holds what was built."""

    root: Path
    cache: Path

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `build` with these arguments. Raises AssertionError where it fails, with what it said."""
        result = build(self.root, *arguments, cache=self.cache)
        assert result.returncode == 0, f"build {' '.join(arguments)}:\n{result.stdout}\n{result.stderr}"
        return result

    def run_app(self, *dates: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the program that was built, as anybody would, without the builder."""
        command = [str(self.root / "build-out" / "apps" / "normalize_date"), *dates]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300)


def copy_monorepo(checkout: Path, cache: Path) -> Monorepo:
    """Copy what examples/ and its rules_executorch (the folder above) are made of to the folder `checkout`."""
    ignored = shutil.ignore_patterns("build-out", "__pycache__")
    for folder in (EXAMPLES, *(ROOT / name for name in ("backends", "lowering", "rules", "runtime"))):
        shutil.copytree(folder, checkout / folder.name, ignore=ignored)
    (checkout / "WORKSPACE").write_text('workspace(name = "rules_executorch")\n')
    return Monorepo(checkout / "examples", cache)


@pytest.fixture(scope="session")
def monorepo(tmp_path_factory: pytest.TempPathFactory) -> Monorepo:
    """Built once; tests that change sources put them back."""
    folder = tmp_path_factory.mktemp("monorepo")
    monorepo = copy_monorepo(folder / "checkout", folder / "cache")
    monorepo.build("//...")
    return monorepo


@pytest.fixture
def example_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets a test import the modules of examples/models, and forgets them afterwards."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(MODELS))
    yield
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(MODELS)):
            del sys.modules[name]
