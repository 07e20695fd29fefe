"""How long a developer waits after an edit: the example's `decode` changes, and its program is made again.

    python benchmarks/edit.py [--repeat 5] [--markdown]

In one run, in turn, each time after another edit and two seconds of rest:

- build: the command `build`, with warm workers. Its null build, and a build --noworkers, for comparison.
- script: a Python script that exports and lowers both methods with this project's engine, from a cold start.
- ExecuTorch: the same script with ExecuTorch's own engine (without a delegate, since the example's is ours).

Seconds of wall-clock time; medians.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measure import versions  # noqa: E402

CHECKOUT = Path(__file__).resolve().parent.parent
TARGET = "//models:encoder_decoder"

_REST_SECONDS = 2.0

SCRIPT = """
import sys
sys.path.insert(0, "models")
import torch
from dates import encoder_decoder
from safetensors.torch import load_model
{imports}
model = encoder_decoder()
load_model(model.module, "models/dates.safetensors")
programs = {{}}
for name, method in model.methods.items():
    model.module.forward = getattr(model.module, name)
    programs[name] = torch.export.export(model.module, method.example_inputs, dynamic_shapes=method.dynamic_shapes)
edge = to_edge_transform_and_lower(programs{partitioner})
with open(sys.argv[1], "wb") as file:
    edge.to_executorch().write_to_file(file)
"""
OURS = SCRIPT.format(
    imports="from rules_executorch.lowering import to_edge_transform_and_lower\n"
    "from rules_executorch.backends.reference import ReferencePartitioner",
    partitioner=", partitioner={name: [ReferencePartitioner()] for name in programs}",
)
EXECUTORCH = SCRIPT.format(imports="from executorch.exir import to_edge_transform_and_lower", partitioner="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="the rows wanted, by commas; `script` is always among them")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        table = measure(Path(name), options.repeat, options.only.split(",") if options.only else None)
    print(f"{versions()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print_table(table, markdown=options.markdown)


def measure(folder: Path, repeat: int, only: list[str] | None = None) -> dict[str, float]:
    """Seconds, by what was done after an edit."""
    workspace = folder / "workspace"
    shutil.copytree(CHECKOUT / "examples", workspace, ignore=shutil.ignore_patterns("build-out", "__pycache__"))
    rules = workspace / "WORKSPACE"
    rules.write_text(rules.read_text().replace('path = ".."', f'path = "{CHECKOUT}"'))
    # Beside the measured ones, no worker of the user's is asked or disturbed.
    (folder / "run").mkdir(mode=0o700)
    # Without bytecode, every start of ours and of the scripts would compile this project.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "RULES_EXECUTORCH_CACHE": str(folder / "cache"), "XDG_RUNTIME_DIR": str(folder / "run")}
    build = [sys.executable, "-c", "import sys; from rules_executorch.builder.cli import main; sys.exit(main())", "build"]
    python = [sys.executable, "-c"]
    commands = {
        "build": [*build, TARGET],
        "build, nothing changed": [*build, TARGET],
        "build --noworkers": [*build, "--noworkers", TARGET],
        "script": [*python, OURS, str(folder / "ours.pte")],
        "ExecuTorch": [*python, EXECUTORCH, str(folder / "theirs.pte")],
    }
    if only is not None:
        commands = {name: command for name, command in commands.items() if name in (*only, "script")}

    def run(name: str) -> float:
        # Edits come to a machine that waits, not to one that has just run another of these commands.
        time.sleep(_REST_SECONDS)
        start = time.perf_counter()
        call(commands[name], workspace, environment)
        return time.perf_counter() - start

    try:
        # The first build starts the workers; all scripts are compiled, and their libraries read from disk.
        for number, name in enumerate(commands):
            edit(workspace, number)
            run(name)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(repeat):
            for position, name in enumerate(commands):
                if name != "build, nothing changed":
                    edit(workspace, 100 + number * len(commands) + position)
                times[name].append(run(name))
    finally:
        end_workers(folder)
    return {name: statistics.median(taken) for name, taken in times.items()}


def edit(workspace: Path, number: int) -> None:
    """Change what `decode` computes."""
    path = workspace / "models" / "decoder.py"
    text, count = re.subn(r"self\.scale = .*", f"self.scale = 1.{number:04} / math.sqrt(WIDTH)", path.read_text())
    assert count == 1, "the example's decoder has another form now"
    path.write_text(text)


def call(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")


def workers(folder: Path) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(folder / "run") in (process / "cmdline").read_bytes():
                found.append(process)
        except OSError:
            continue
    return found


def end_workers(folder: Path) -> None:
    for process in workers(folder):
        with contextlib.suppress(ProcessLookupError):  # it ended with another
            os.kill(int(process.name), 9)


def print_table(table: dict[str, float], *, markdown: bool) -> None:
    rows = [("after an edit of `decode`", "seconds", "of the script's", "of ExecuTorch's")]
    for name, seconds in table.items():
        shares = [f"{seconds / table[whole]:.0%}" if whole in table else "" for whole in ("script", "ExecuTorch")]
        rows.append((name, f"{seconds:.2f}", *shares))
    for position, row in enumerate(rows):
        if markdown:
            print("| " + " | ".join(row) + " |")
            if position == 0:
                print("|---" * len(row) + "|")
        else:
            print(f"{row[0]:<28}" + "".join(f"{cell:>20}" for cell in row[1:]))


if __name__ == "__main__":
    main()
