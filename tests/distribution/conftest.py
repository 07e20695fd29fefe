"""A wheel of this checkout, built once, and an empty virtual environment that it is installed in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("backends", "builder", "lowering", "rules", "runtime")


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the distribution in it; `cache` is for builds."""

    folder: Path
    cache: Path

    def build(self, workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command `build` in a workspace, with nothing of the checkout in sight."""
        return subprocess.run(
            [str(self.folder / "bin" / "build"), *arguments],
            cwd=workspace,
            env={"PATH": os.environ["PATH"], "HOME": str(self.cache), "RULES_EXECUTORCH_CACHE": str(self.cache)},
            capture_output=True,
            text=True,
            timeout=600,
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that setuptools leaves nothing in the checkout."""
    pytest.importorskip("setuptools", reason="building a wheel offline needs setuptools (extra dev)")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in PRODUCT:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "build-out"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, source / file)
    backend = f"from setuptools.build_meta import build_wheel; print(build_wheel({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", backend], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own. The dependencies, already on this machine, are linked to it."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site_packages = folder / "lib" / version / "site-packages"
    for entry in Path(pytest.__file__).parent.parent.iterdir():
        ours = "rules_executorch" in entry.name or entry.suffix == ".pth"
        if not ours and not (site_packages / entry.name).exists():
            (site_packages / entry.name).symlink_to(entry)
    # Some are found through scripts beside the interpreter.
    for script in Path(sys.executable).parent.glob("ninja*"):
        (folder / "bin" / script.name).symlink_to(script)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Installed(folder, tmp_path_factory.mktemp("cache"))
