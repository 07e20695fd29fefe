"""Writes lowering/operators/data/*.txt: the kernels that the official runtime and its extensions register.

Run it as `python tests/support/runtime_operators.py` after changing the pinned executorch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "lowering" / "operators" / "data"

# Each library registers its kernels when imported, so each set is what a new process gains by it.
LIBRARIES = {
    "stock": None,
    "quantized": "executorch.kernels.quantized",
    "llm": "executorch.extension.llm.custom_ops.custom_ops",
}

_PROGRAM = """
import importlib, json, sys
from executorch.runtime import Runtime
registry = Runtime.get().operator_registry
before = sorted(registry.operator_names)
if sys.argv[1]:
    importlib.import_module(sys.argv[1])
print(json.dumps([before, sorted(registry.operator_names)]))
"""


def registered_by(library: str | None) -> list[str]:
    """Names that `library` adds to the registry; those of the runtime itself for None."""
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, library or ""], capture_output=True, text=True, check=True
    )
    before, after = json.loads(run.stdout.splitlines()[-1])
    return before if library is None else sorted(set(after) - set(before))


def main() -> None:
    from importlib.metadata import version

    for name, library in LIBRARIES.items():
        head = f"# Kernels of executorch {version('executorch')}, {library or 'the runtime itself'}; written by tests/support/runtime_operators.py\n"
        (DATA / f"{name}.txt").write_text(head + "".join(f"{line}\n" for line in registered_by(library)))


if __name__ == "__main__":
    main()
