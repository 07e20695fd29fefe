"""The reference backend's device runtime as a shared library that the official runtime loads.

Pass `library()` in `backends=` of support.official_runtime.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
DEFINES = ("-DET_LOG_ENABLED=0", "-DC10_USING_CUSTOM_GENERATED_MACROS")


@functools.lru_cache(maxsize=None)
def library(*flags: str) -> Path:
    """The library, compiled with further `flags`; a folder for temporary files keeps it by content."""
    folder = ROOT / "backends" / "reference" / "runtime"
    files = sorted(folder.glob("*.h")) + sorted(folder.glob("*.cc"))
    headers = executorch_include()
    # Headers of the wheel are not ours to warn about.
    include = ["-isystem", str(headers), "-isystem", str(headers / "executorch/runtime/core/portable_type/c10")]
    command = ["c++", *FLAGS, *flags, *DEFINES, *include, *(str(file) for file in files if file.suffix == ".cc")]
    key = hashlib.sha256("\0".join(command).encode())
    for file in files:
        key.update(file.read_bytes())
    kept = Path(tempfile.gettempdir()) / f"rules_executorch_tests.{os.getuid()}"
    kept.mkdir(mode=0o700, exist_ok=True)
    output = kept / f"reference_{key.hexdigest()[:16]}.so"
    if not output.exists():
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            made = Path(scratch) / output.name
            subprocess.run([*command, "-o", str(made)], check=True)
            made.rename(output)
    return output


def executorch_include() -> Path:
    """The folder of the official wheel's headers."""
    spec = importlib.util.find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations, "executorch is not installed"
    return Path(next(iter(spec.submodule_search_locations))) / "include"
