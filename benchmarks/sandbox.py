"""What a sandbox costs: `python benchmarks/sandbox.py` runs actions that do nothing, with few and with many inputs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.probe import why_not
from rules_executorch.builder.execution.processes import Processes
from rules_executorch.builder.execution.sandbox import Command, execute

_REPETITIONS = 20
_COUNTS = (0, 100, 1000)


def milliseconds(mode: Mode, files: dict[str, Path], folder: Path) -> float:
    """The least time of an action that does nothing, from the call to its exit status: what else runs only adds."""
    times = []
    for number in range(_REPETITIONS):
        command = Command(("true",), {}, files, {})
        began = time.perf_counter()
        completed = execute(command, folder / f"{mode.value}-{len(files)}-{number}", Processes(), mode)
        times.append(time.perf_counter() - began)
        assert completed.status == 0
    return 1000 * min(times)


def main() -> None:
    """Print a table, as in docs/hermeticity.md."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sources = folder / "sources"
        sources.mkdir()
        for number in range(max(_COUNTS)):
            (sources / str(number)).write_text(f"{number}\n" * 100)
        print("| sandbox | " + " | ".join(f"{count} inputs" for count in _COUNTS) + " |")
        print("|---" * (len(_COUNTS) + 1) + "|")
        for mode in Mode:
            if reason := why_not(mode, folder / "probe"):
                print(f"| `{mode.value}` | {reason} |")
                continue
            inputs = [{f"w/p/{number}": sources / str(number) for number in range(count)} for count in _COUNTS]
            cells = [f"{milliseconds(mode, files, folder):.0f}" for files in inputs]
            print(f"| `{mode.value}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
