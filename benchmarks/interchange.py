"""Saving and loading exported programs: torch.export.save and load, and save_program and load_program.

    python benchmarks/interchange.py [--models transformer6,linears12] [--repeat 3]

Each figure is the fastest of the runs, in seconds of processor time, each in a process of its own, in turn. "load"
ends with a program whose weights can be used; "load and read" has read every byte of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.export import ExportedProgram

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from measure import Stopwatch, in_turn, peak_memory_mib, versions  # noqa: E402

WAYS = ("torch.export", "rules_executorch")
STAGES = ("save", "load", "load and read")


def measure(way: str, model: str) -> dict:
    """Save and load `model` once in this process."""
    module, inputs = models.make(model)
    with torch.no_grad():
        program = torch.export.export(module, inputs)
    weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
    torch.set_num_threads(1)
    watch = Stopwatch(time.process_time)
    with tempfile.TemporaryDirectory() as folder:
        if way == "torch.export":
            path = Path(folder) / "program.pt2"
            with watch.stage("save"):
                torch.export.save(program, path)
            before = peak_memory_mib()
            with watch.stage("load"):
                loaded = torch.export.load(path)
            size = path.stat().st_size
        else:
            from rules_executorch.lowering import load_program, save_program

            graph, constants = Path(folder) / "graph", Path(folder) / "constants"
            with watch.stage("save"):
                save_program(program, graph, constants)
            before = peak_memory_mib()
            with watch.stage("load"):
                loaded = load_program(graph, [constants])
            size = graph.stat().st_size + constants.stat().st_size
        with watch.stage("read"):
            read_all(loaded)
        seconds = {**watch.seconds, "load and read": watch.seconds["load"] + watch.seconds["read"]}
        return {"seconds": seconds, "bytes": size, "weights_mib": weights, "load_mib": peak_memory_mib() - before}


def read_all(program: ExportedProgram) -> None:
    """Touch every byte of a program's weights."""
    for tensor in program.state_dict.values():
        tensor.sum().item()


def table(results: dict[str, dict[str, dict]]) -> str:
    """The results as a Markdown table, with the ratios of each model in a third row."""
    lines = ["| model | by | " + " | ".join(f"{stage} s" for stage in STAGES) + " | MB |", "|---|---|---|---|---|---|"]
    for model, by_way in results.items():
        for way in WAYS:
            seconds = " | ".join(f"{by_way[way]['seconds'][stage]:.3f}" for stage in STAGES)
            lines.append(f"| {model} | {way} | {seconds} | {by_way[way]['bytes'] / 1e6:.2f} |")
        theirs, ours = (by_way[way]["seconds"] for way in WAYS)
        ratios = " | ".join(f"**{theirs[stage] / ours[stage]:.1f}×**" for stage in STAGES)
        lines.append(f"| {model} | ratio | {ratios} | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="transformer6,transformer24,cnn16,linears12", help="comma-separated")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each way and model (default 3)")
    parser.add_argument("--child", nargs=2, metavar=("WAY", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return
    results: dict[str, dict[str, dict]] = {}
    for model in options.models.split(","):
        runs = in_turn(__file__, WAYS, model, options.repeat)
        results[model] = {way: fastest(runs[way]) for way in WAYS}
    print(f"{versions()}; fastest of {options.repeat}\n\n{table(results)}")


def fastest(runs: list[dict]) -> dict:
    """The runs as one, with the least seconds of each stage."""
    return {**runs[0], "seconds": {stage: min(run["seconds"][stage] for run in runs) for stage in STAGES}}


if __name__ == "__main__":
    main()
