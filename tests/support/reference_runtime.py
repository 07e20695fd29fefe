"""The reference backend's device runtime, compiled for tests.

Pass `library()` in `backends=` of support.official_runtime.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RUNTIME = ROOT / "backends" / "reference" / "runtime"
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-DET_LOG_ENABLED=0", "-DC10_USING_CUSTOM_GENERATED_MACROS")


@functools.lru_cache(maxsize=None)
def library() -> Path:
    """The shared library that registers the backend when it is loaded."""
    return _compiled("reference.so", sorted(RUNTIME.glob("*.cc")), ("-O2", "-fPIC", "-shared"))


def program(main: Path, *flags: str) -> Path:
    """A program of one source file and the backend's runtime, linked to the official runtime, not registered in it."""
    portable_lib, torch_python = _wheel_library(), _package("torch") / "lib" / "libtorch_python.so"
    folder = _kept()
    symbols = folder / "python_symbols.S"
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".S", delete=False) as file:
        command = ["sh", str(ROOT / "runtime" / "python_symbols.sh"), str(portable_lib), str(torch_python)]
        subprocess.run(command, check=True, stdout=file)
    os.replace(file.name, symbols)
    sources = [main, symbols]
    sources += [source for source in sorted(RUNTIME.glob("*.cc")) if source.name != "backend.cc"]
    # In the wheel for Linux on x86-64, a part of the runtime is in a library of its own.
    qualcomm = _package("executorch") / "backends" / "qualcomm"
    libraries = [portable_lib, *qualcomm.glob("libqnn_executorch_backend*.so")]
    paths = [f"-Wl,-rpath,{library.parent}" for library in (*libraries, torch_python)]
    link = (*map(str, libraries), *paths, "-Wl,--allow-shlib-undefined", "-rdynamic")
    return _compiled(main.stem, sources, (*flags, f"-I{RUNTIME}"), link)


def executorch_include() -> Path:
    """The folder of the official wheel's headers."""
    return _package("executorch") / "include"


def _compiled(name: str, sources: Sequence[Path], flags: Sequence[str], link: Sequence[str] = ()) -> Path:
    """What the compiler makes of the sources; kept between runs of the tests by all that goes into it."""
    headers = executorch_include()
    # Headers of the wheel are not ours to warn about.
    include = ["-isystem", str(headers), "-isystem", str(headers / "executorch/runtime/core/portable_type/c10")]
    command = ["c++", *FLAGS, *flags, *include, *map(str, sources), *link]
    key = hashlib.sha256("\0".join(command).encode())
    for file in (*sources, *sorted(RUNTIME.glob("*.h"))):
        key.update(file.read_bytes())
    output = _kept() / f"{key.hexdigest()[:16]}_{name}"
    if not output.exists():
        with tempfile.TemporaryDirectory(dir=_kept()) as scratch:
            made = Path(scratch) / name
            subprocess.run([*command, "-o", str(made)], check=True)
            made.rename(output)
    return output


def _kept() -> Path:
    folder = Path(tempfile.gettempdir()) / f"rules_executorch_tests.{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _wheel_library() -> Path:
    return next((_package("executorch") / "extension" / "pybindings").glob("_portable_lib.*.so"))


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations, f"{name} is not installed"
    return Path(next(iter(spec.submodule_search_locations)))
