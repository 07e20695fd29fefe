"""`buildw`: makes its environment once, repairs what was left half-made, and then costs next to nothing.

The environment is real; pip and the command in it are stand-ins, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]

# Stands for the python that `venv` makes: runs the launcher, and `-m pip install` puts a `build` beside it, which prints how it was called.
_PYTHON = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
"-I -S "*) exec PYTHON "$@" ;;
*"pip install"*)
  echo "$*" >> "$here/../../pip.log"
  [ ! -e "$here/../../slow" ] || while [ -e "$here/../../slow" ]; do sleep 0.02; done
  [ ! -e "$here/../../offline" ] || { echo "no network"; exit 1; }
  echo "Downloading https://x/torch-1.whl (1 MB)"
  printf '#!/bin/sh\\necho "$(pwd):$*"\\n' > "$here/build"
  chmod +x "$here/build" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "check out"
    shutil.copytree(CHECKOUT / "builder", root / "builder", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("buildw", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, root / name)
    (root / "stand-in").write_text(_PYTHON.replace("PYTHON", sys.executable))
    (root / "stand-in").chmod(0o755)
    # `python -m venv` makes the folder with the stand-in, in place of a copy of the interpreter with pip.
    fake = root / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text(
        f"""#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin"; cp '{root}/stand-in' "$3/bin/python"; exit ;;
esac
exec {sys.executable} "$@"
"""
    )
    fake.chmod(0o755)
    # bootstrap.py calls sys.executable for venv: let that be the stand-in as well.
    text = (root / "builder/bootstrap.py").read_text()
    (root / "builder/bootstrap.py").write_text(text.replace("[sys.executable,", f"[{str(fake)!r},").replace("https:", "x:"))
    return root


def _environment(checkout: Path) -> dict[str, str]:
    return {"PATH": f"{checkout}/bin:/usr/bin:/bin", "HOME": str(checkout)}


def _buildw(checkout: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "buildw"), *arguments],
        cwd=cwd or checkout,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        timeout=60,
    )


def _installations(checkout: Path) -> int:
    log = checkout / "pip.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_first_use_installs_and_tells_what_it_does(checkout: Path) -> None:
    result = _buildw(checkout, "-C", "examples", "//models:x")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{checkout}:-C examples //models:x\n"
    assert "buildw: first use" in result.stderr and "torch-1.whl (1 MB)" in result.stderr
    assert "--editable" in (checkout / "pip.log").read_text()


def test_later_uses_only_run_the_command(checkout: Path) -> None:
    _buildw(checkout)
    started = time.perf_counter()
    result = _buildw(checkout, "//x")
    elapsed = time.perf_counter() - started
    assert (result.stdout, result.stderr) == (f"{checkout}://x\n", "")
    assert _installations(checkout) == 1
    assert elapsed < 1


def test_paths_are_relative_to_where_the_user_is(checkout: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(checkout / "buildw")
    for command in (checkout / "buildw", link):
        result = subprocess.run([command, "a b"], cwd=tmp_path, env=_environment(checkout), capture_output=True, text=True)
        assert result.stdout == f"{tmp_path}:a b\n", result.stderr


def test_changed_pins_install_again(checkout: Path) -> None:
    _buildw(checkout)
    with open(checkout / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    _buildw(checkout)
    assert _installations(checkout) == 2
    _buildw(checkout)
    assert _installations(checkout) == 2


def test_a_checkout_that_was_moved_installs_again(checkout: Path) -> None:
    _buildw(checkout)
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    (moved / "pip.log").unlink()
    assert _buildw(moved, "x").stdout == f"{moved}:x\n"
    assert str(moved) in (moved / "pip.log").read_text()


def test_a_failed_installation_is_told_and_repaired_by_the_next(checkout: Path) -> None:
    (checkout / "offline").touch()
    result = _buildw(checkout)
    assert result.returncode == 1 and "no network" in result.stderr and "run buildw again" in result.stderr
    (checkout / "offline").unlink()
    assert _buildw(checkout, "x").stdout == f"{checkout}:x\n"


def test_a_killed_installation_is_repaired_by_the_next(checkout: Path) -> None:
    (checkout / "slow").touch()
    first = subprocess.Popen([checkout / "buildw"], env=_environment(checkout), start_new_session=True, stderr=-3)
    while not _installations(checkout):
        assert first.poll() is None
        time.sleep(0.01)
    os.killpg(first.pid, 9)
    first.wait()
    (checkout / "slow").unlink()
    (checkout / ".venv/bin/half-written").touch()
    result = _buildw(checkout, "x")
    assert result.stdout == f"{checkout}:x\n" and "making it anew" in result.stderr
    assert not (checkout / ".venv/bin/half-written").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Path) -> None:
    _buildw(checkout)
    (checkout / ".venv/bin/python").unlink()
    assert _buildw(checkout, "x").stdout == f"{checkout}:x\n"


def test_first_uses_at_once_install_once(checkout: Path) -> None:
    (checkout / "slow").touch()
    several = [
        subprocess.Popen([checkout / "buildw", "x"], env=_environment(checkout), stdout=-1, stderr=-1, text=True)
        for _ in range(3)
    ]
    while not _installations(checkout):
        time.sleep(0.01)
    (checkout / "slow").unlink()
    assert [process.communicate(timeout=60)[0] for process in several] == [f"{os.getcwd()}:x\n"] * 3
    assert _installations(checkout) == 1


def test_without_a_python_it_says_what_to_install(checkout: Path) -> None:
    for name in ("sh", "cat", "cksum", "readlink", "dirname"):
        (checkout / "tools").mkdir(exist_ok=True)
        (checkout / "tools" / name).symlink_to(shutil.which(name))
    environment = {"PATH": str(checkout / "tools")}
    result = subprocess.run([checkout / "buildw"], env=environment, capture_output=True, text=True)
    assert result.returncode == 2 and "no Python 3.10 to 3.13" in result.stderr
