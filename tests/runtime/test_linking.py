"""What C++ programs are linked with to use the wheel's runtime, apart from any Python."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parent.parent.parent / "runtime"

MAIN = """
#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>

int main() {
  executorch::runtime::runtime_init();
  std::printf("%zu\\n", executorch::runtime::get_registered_kernels().size());
}
"""


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="module")
def libraries() -> list[Path]:
    """The libraries that need Python's symbols."""
    (portable,) = (package("executorch") / "extension" / "pybindings").glob("_portable_lib.*.so")
    return [portable, package("torch") / "lib" / "libtorch_python.so"]


@pytest.fixture(scope="module")
def assembly(libraries: list[Path]) -> str:
    command = ["sh", str(RUNTIME / "python_symbols.sh"), *map(str, libraries)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_every_symbol_of_python_is_defined_once_and_none_of_others(assembly: str) -> None:
    symbols = re.findall(r"^ *\.globl (\S+)$", assembly, flags=re.MULTILINE)
    assert {"PyTuple_Type", "PyExc_RuntimeError", "_Py_NoneStruct", "PyErr_SetString"} <= set(symbols)
    assert len(set(symbols)) == len(symbols)
    assert all(re.fullmatch(r"_?Py[A-Za-z0-9_]+", symbol) for symbol in symbols)


def test_the_same_libraries_give_the_same_text(libraries: list[Path], assembly: str) -> None:
    command = ["sh", str(RUNTIME / "python_symbols.sh"), *map(str, libraries)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"}
    again = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
    assert again.stdout == assembly


def test_a_library_that_is_not_there_is_an_error() -> None:
    result = subprocess.run(
        ["sh", str(RUNTIME / "python_symbols.sh"), "/nonexistent.so"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode != 0
    assert "/nonexistent.so" in result.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, libraries: list[Path], assembly: str) -> Path:
    """A program that is linked as runtime/BUILD says: no symbol may be missing in any library."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "main.cc").write_text(MAIN)
    (folder / "python_symbols.S").write_text(assembly)
    include = package("executorch") / "include"
    shared = [libraries[0], *(package("executorch") / "backends" / "qualcomm").glob("libqnn_executorch_backend*.so")]
    subprocess.run(
        [
            "c++", "-std=c++20", "-DC10_USING_CUSTOM_GENERATED_MACROS",
            f"-isystem{include}", f"-isystem{include / 'executorch/runtime/core/portable_type/c10'}",
            "main.cc", "python_symbols.S", *map(str, shared), "-o", "program",
            *(f"-Wl,-rpath,{library.parent}" for library in shared),
        ],
        cwd=folder, check=True, timeout=300,
    )  # fmt: skip
    return folder / "program"


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_program_without_python_has_the_runtimes_kernels(program: Path, binding: str) -> None:
    environment = {"LD_BIND_NOW": "1"} if binding == "now" else {}
    result = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 200
