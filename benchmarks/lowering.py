"""Lowering to the portable kernels: ExecuTorch's own engine and this one, on the same models, in one run.

    python benchmarks/lowering.py [--models transformer6,cnn16] [--repeat 3]

Each figure is the median of runs in fresh processes, the two engines in turn. Seconds of processor
time by stage, of one thread, so that other work on the machine disturbs little;
peak memory of the process beyond the model's; bytes of the .pte; planned memory; latency on the official runtime, of the fastest call of all runs.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from measure import Stopwatch, fastest_ms, in_turn, medians, peak_memory_mib, versions  # noqa: E402

# Where each has its `to_edge_transform_and_lower`.
ENGINES = {"executorch": "executorch.exir", "rules_executorch": "rules_executorch.lowering"}


def lower(engine: str, module, inputs, watch: Stopwatch, path: Path) -> None:
    """ExecuTorch's documented path without a partitioner, with the engine's import."""
    to_edge_transform_and_lower = importlib.import_module(ENGINES[engine]).to_edge_transform_and_lower
    with watch.stage("export"):
        program = torch.export.export(module, inputs)
    with watch.stage("to_edge"):
        edge = to_edge_transform_and_lower(program)
    with watch.stage("to_executorch"):
        lowered = edge.to_executorch()
    with watch.stage("write"), open(path, "wb") as file:
        lowered.write_to_file(file)


def measure(engine: str, model: str) -> dict:
    """Lower `model` in this process, once, after a small model that warms the imports up."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.pte"
        lower(engine, torch.nn.Linear(2, 2).eval(), (torch.randn(1, 2),), Stopwatch(), path)
        module, inputs = models.make(model)
        weights = sum(p.numel() * p.element_size() for p in module.parameters()) / 2**20
        gc.collect()
        before, watch = peak_memory_mib(), Stopwatch(time.process_time)
        lower(engine, module, inputs, watch, path)
        peak = peak_memory_mib() - before
        expected = module(*inputs)
        return {
            "seconds": watch.seconds,
            "after_export": sum(s for stage, s in watch.seconds.items() if stage != "export"),
            "weights_mib": weights,
            "peak_mib": peak,
            "pte_bytes": path.stat().st_size,
            **run(path, inputs, expected),
        }


def run(path: Path, inputs, expected: torch.Tensor) -> dict:
    """Latency, planned memory and error against eager, on the official runtime."""
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(path)
    method = program.load_method("forward")
    error = (method.execute(list(inputs))[0] - expected).abs().max().item()
    return {
        "planned_bytes": planned_bytes(path),
        "latency_ms": fastest_ms(lambda: method.execute(list(inputs))),
        "max_error": error,
    }


def planned_bytes(path: Path) -> int:
    """The sum of the arenas that the program's forward method asks for."""
    from rules_executorch.lowering.format.read import read_pte

    plan = next(p for p in read_pte(path).program.execution_plan if p.name == "forward")
    return sum(plan.non_const_buffer_sizes)


def table(results: dict[str, dict[str, dict]]) -> str:
    """The results as a Markdown table: a row a model and engine, ratios in the second row."""
    lines = [
        "| model | engine | export s | to_edge s | to_executorch s | write s | after export s | peak MiB (weights) "
        "| .pte MB | planned kB | latency ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, by_engine in results.items():
        for engine in ENGINES:
            r = by_engine[engine]
            s = r["seconds"]
            lines.append(
                f"| {model} | {engine} | {s['export']:.2f} | {s['to_edge']:.2f} | {s['to_executorch']:.2f} | {s['write']:.2f} "
                f"| {r['after_export']:.2f} | {r['peak_mib']:.0f} ({r['weights_mib']:.0f}) | {r['pte_bytes'] / 1e6:.2f} "
                f"| {r['planned_bytes'] / 1e3:.0f} | {r['latency_ms']:.2f} |"
            )
        theirs, ours = (by_engine[e] for e in ENGINES)
        lines.append(
            f"| {model} | ratio | | | | | **{theirs['after_export'] / ours['after_export']:.1f}×** | "
            f"| {theirs['pte_bytes'] / ours['pte_bytes']:.2f}× | {theirs['planned_bytes'] / ours['planned_bytes']:.2f}× "
            f"| {theirs['latency_ms'] / ours['latency_ms']:.1f}× |"
        )
    return "\n".join(lines)


def _merged(runs: list[dict]) -> dict:
    return {**medians(runs), "latency_ms": min(run["latency_ms"] for run in runs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(models.MODELS), help="comma-separated; default: all")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each engine and model (default 3)")
    parser.add_argument("--child", nargs=2, metavar=("ENGINE", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return
    results: dict[str, dict[str, dict]] = {}
    for model in options.models.split(","):
        runs = in_turn(__file__, list(ENGINES), model, options.repeat)
        results[model] = {engine: _merged(runs[engine]) for engine in ENGINES}
    print(f"{versions()}; median of {options.repeat}\n\n{table(results)}")


if __name__ == "__main__":
    main()
