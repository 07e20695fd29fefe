"""Installs the checkout into `.venv` beside `buildw`: `python bootstrap.py CHECKOUT STAMP`.

Runs before anything is installed, so it uses the standard library only. The stamp is written last:
where it is missing, or is another, `buildw` comes here again, and whatever an interrupted run left
is repaired. Several at once wait for one another.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

# The same torch without the gigabytes that only NVIDIA's devices need; everything here runs without them.
_TORCH_FOR_CPU = "https://download.pytorch.org/whl/cpu"
_EXTRAS = "host,quantize,dev"


def main(checkout: Path, stamp: str) -> int:
    """Make the environment what `stamp` stands for. Returns an exit code."""
    environment = checkout / ".venv"
    installed = environment / ".installed"
    lock = os.open(checkout, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _tell("another buildw is installing; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
    if installed.exists() and installed.read_text().strip() == stamp and _works(environment):
        return 0
    try:
        installed.unlink(missing_ok=True)
        _make(environment)
        status = _install(environment, checkout)
        if status != 0:
            return status
        temporary = environment / ".installed.writing"
        temporary.write_text(f"{stamp}\n")
        temporary.replace(installed)
        _unfinished(environment).unlink(missing_ok=True)
    except (OSError, subprocess.CalledProcessError) as error:
        _tell(f"cannot make {environment}: {error}")
        return 2
    _tell("done")
    return 0


def _unfinished(environment: Path) -> Path:
    """There from the beginning of a first installation to its end."""
    return environment / ".unfinished"


def _make(environment: Path) -> None:
    """Make a virtual environment, unless there is one that works and was not left half-made."""
    if environment.exists() and (_unfinished(environment).exists() or not _works(environment)):
        _tell(f"{environment} is broken or unfinished; making it anew")
        shutil.rmtree(environment)
    if not environment.exists():
        _tell(f"first use: making {environment} with Python {sys.version.split()[0]}")
        environment.mkdir()
        _unfinished(environment).touch()
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)


def _works(environment: Path) -> bool:
    """Whether the environment's interpreter runs and has pip."""
    try:
        command = [str(environment / "bin" / "python"), "-I", "-c", "import pip"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _install(environment: Path, checkout: Path) -> int:
    """Install the checkout, editable, and all that pyproject.toml pins. Returns pip's exit code."""
    command = [
        str(environment / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar=off",
        *_index_options(),
        "--editable",
        f"{checkout}[{_EXTRAS}]",
    ]
    _tell("installing what pyproject.toml pins (torch is large; this takes a few minutes once)")
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if text := _progress(line):
                _tell(text)
    if process.returncode != 0:
        sys.stderr.writelines(lines)
        _tell("pip failed, see above; run buildw again to go on")
    return process.returncode


def _progress(line: str) -> str | None:
    """What is worth telling of a line of pip's."""
    words = line.split()
    if words[:1] == ["Downloading"] and len(words) > 1:
        return f"  {words[1].rpartition('/')[2]} {' '.join(words[2:])}".rstrip()
    if words[:2] == ["Installing", "collected"]:
        return f"  unpacking {len(words) - 3} packages"
    return None


def _index_options() -> list[str]:
    if not sys.platform.startswith("linux"):
        return []
    try:
        with urllib.request.urlopen(f"{_TORCH_FOR_CPU}/torch/", timeout=5):
            return [f"--extra-index-url={_TORCH_FOR_CPU}"]
    except (OSError, urllib.error.URLError, ValueError):
        return []


def _tell(text: str) -> None:
    print(f"buildw: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
