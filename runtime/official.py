"""The official ExecuTorch runtime of this machine: a loaded program, with backends from shared libraries."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from rules_executorch.lowering.errors import InvalidFileError
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.operators.kernel_libraries import kernel_libraries


class OfficialRuntimeError(Exception):
    """The runtime is not there, or refuses a library, a program or a call; shown as it is."""


class LoadedProgram:
    """A .pte in the official runtime, each method with memory of its own.

    `methods` are the names of its methods, in its order. A class because the runtime's program
    lives as long as it does.
    """

    def __init__(self, program: Path, backends: Sequence[Path] = ()):
        """Load `program`; `backends` are shared libraries that register themselves when loaded.

        Raises:
            OfficialRuntimeError: it cannot be loaded.
        """
        runtime = _runtime()
        if backends:
            # They take the runtime's symbols from the process.
            ctypes.CDLL(runtime.__file__, mode=ctypes.RTLD_GLOBAL)
        for backend in backends:
            try:
                ctypes.CDLL(str(backend.resolve()))
            except OSError as error:
                raise OfficialRuntimeError(f"cannot load backend {backend}: {error}") from None
        _load_kernels(program)
        try:
            self._module = runtime._load_for_executorch(
                str(program), program_verification=runtime.Verification.InternalConsistency
            )
            # Loading is put off until something is asked.
            self.methods: list[str] = list(self._module.method_names())
        except RuntimeError as error:
            raise OfficialRuntimeError(f"cannot load {program}: {_first_line(error)}") from None

    def run(self, method: str, inputs: Sequence[Any]) -> list[Any]:
        """The flat outputs of `method` on flat inputs: tensors, numbers, booleans.

        Raises:
            OfficialRuntimeError: the method cannot be loaded, or refuses these inputs, or fails.
        """
        try:
            return list(self._module.run_method(method, tuple(inputs)))
        except RuntimeError as error:
            raise OfficialRuntimeError(f"cannot run method {method}: {_first_line(error)}") from None


def _runtime() -> ModuleType:
    """The extension itself: the package's own module around it imports all of executorch.exir."""
    import torch  # noqa: F401  (its libraries must be loaded first)

    try:
        return importlib.import_module("executorch.extension.pybindings._portable_lib")
    except ImportError as error:
        raise OfficialRuntimeError(
            f"the official runtime cannot be imported: {error}\n  to fix: pip install 'rules_executorch[host]'"
        ) from None


def _load_kernels(program: Path) -> None:
    """Register the kernels of the runtime's extensions that the program calls."""
    try:
        libraries = kernel_libraries(read_pte(program).program)
    except (InvalidFileError, FileNotFoundError):
        return  # what is wrong with it is the runtime's to say
    for library in libraries:
        importlib.import_module(library)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
