"""Lowering to XNNPACK: ExecuTorch's engine and partitioner, and this project's, on the same models, in one run.

    python benchmarks/xnnpack.py [--models transformer6,mobilenet,mobilenet:int8,linears12:dynamic] [--repeat 3]

`:int8` is a model quantized statically, `:dynamic` with scales chosen at run time: by torchao and
ExecuTorch's quantizer, so that both engines are given the same program.

Seconds are from the exported program to bytes on disk, the median of up to `--repeat` runs in a process of its own
for each engine and model, after a small model; when runs have taken 20 seconds together, there are no more of them.
Nodes are operators on tensors; arithmetic is that of products and convolutions, in multiplications. Latency is
the median on the official runtime, of both programs in one process, in turn.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from lowering import planned_bytes  # noqa: E402
from measure import Stopwatch, in_child, versions  # noqa: E402

ENGINES = ("executorch", "rules_executorch")

_QUANTIZED = (
    "transformer6:int8", "transformer6:dynamic", "linears12:dynamic", "mobilenet:int8", "resnet:int8",
    "decoder_step:dynamic",
)  # fmt: skip

_ENOUGH = 20.0  # seconds of lowering after which a model is not lowered again


def lower(engine: str, program: torch.export.ExportedProgram, watch: Stopwatch, path: Path) -> Any:
    """ExecuTorch's documented path, or the same calls with the imports changed; returns the delegated program."""
    if engine == "executorch":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower
    else:
        from rules_executorch.backends.xnnpack import XnnpackPartitioner
        from rules_executorch.lowering import to_edge_transform_and_lower

    with watch.stage("lower"), torch.no_grad():  # ExecuTorch's passes write to buffers, which must not need gradients
        edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
        delegated = edge.exported_program()
        lowered = edge.to_executorch()
        with open(path, "wb") as file:
            lowered.write_to_file(file)
    return delegated


class Named(torch.nn.Module):
    """The model as an attribute: ExecuTorch's batch norm pass fails where names of weights begin with a digit."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any) -> Any:
        return self.model(*inputs)


def measure(engine: str, model: str, folder: Path, repeat: int) -> dict:
    """Lower `model` in this process, after a small model that warms the imports up, to `<folder>/<engine>.pte`."""
    torch.set_num_threads(2)
    path = folder / f"{engine}.pte"
    lower(engine, torch.export.export(torch.nn.Linear(2, 2).eval(), (torch.randn(1, 2),)), Stopwatch(), path)
    name, _, quantization = model.partition(":")
    module, inputs = models.make(name)
    program = torch.export.export(Named(module), inputs)
    if quantization:
        module = quantized(program, inputs, dynamic={"int8": False, "dynamic": True}[quantization])
        program = torch.export.export(Named(module), inputs)
    seconds: list[float] = []
    while len(seconds) < repeat and sum(seconds) < _ENOUGH:
        gc.collect()
        watch = Stopwatch()
        delegated = lower(engine, program, watch, path)
        seconds.append(watch.seconds["lower"])
    with torch.no_grad():
        torch.save((inputs, module(*inputs)), folder / "call.pt")
    return {
        "seconds": statistics.median(seconds),
        "runs": len(seconds),
        "pte_bytes": path.stat().st_size,
        "planned_bytes": planned_bytes(path),
        **shares(delegated),
    }


def quantized(program: torch.export.ExportedProgram, inputs: Any, *, dynamic: bool) -> torch.nn.Module:
    """The program with its quantization to int8 simulated, weights per channel, calibrated with `inputs`."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    module = program.module()
    state = {name: buffer.clone() for name, buffer in module.named_buffers()}
    prepared = prepare_pt2e(module, XNNPACKQuantizer().set_global(config))
    with torch.no_grad():
        prepared(*inputs)
        converted = convert_pt2e(prepared)
        for name, buffer in converted.named_buffers():  # both have run the model, and so written to its cache
            if name in state:
                buffer.copy_(state[name])
    return converted


def run(folder: Path) -> dict[str, dict]:
    """By engine, latency and error against eager on the official runtime: calls of the two programs in turn."""
    from executorch.runtime import Runtime

    torch.set_num_threads(2)
    inputs, expected = torch.load(folder / "call.pt")
    programs = {engine: Runtime.get().load_program(folder / f"{engine}.pte") for engine in ENGINES}
    methods = {engine: program.load_method("forward") for engine, program in programs.items()}
    errors = {e: (m.execute(list(inputs))[0] - expected).abs().max().item() for e, m in methods.items()}
    times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    end = time.perf_counter() + 4.0
    while len(times[ENGINES[0]]) < 5 or time.perf_counter() < end:
        for engine, method in methods.items():
            start = time.perf_counter()
            method.execute(list(inputs))
            times[engine].append((time.perf_counter() - start) * 1000)
    return {e: {"latency_ms": statistics.median(times[e]), "max_error": errors[e]} for e in ENGINES}


def shares(program: torch.export.ExportedProgram) -> dict:
    """How many partitions there are, and how much of the program is in them."""
    delegates = [module for module in program.graph_module.modules() if hasattr(module, "original_module")]
    programs = [getattr(module, "original_program", None) or module.original_module for module in delegates]
    inside = [node for partition in programs for node in operators(partition.graph_module)]
    outside = list(operators(program.graph_module))
    arithmetic_inside = sum(map(arithmetic, inside))
    return {
        "partitions": len(delegates),
        "nodes_inside": len(inside),
        "nodes_outside": len(outside),
        "arithmetic": arithmetic_inside / max(arithmetic_inside + sum(map(arithmetic, outside)), 1),
    }


def operators(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """Nodes that compute tensors, of either engine's graphs."""
    for node in module.graph.nodes:
        name = operator_name(node)
        if node.op == "call_function" and "::" in name and not name.startswith(("aten::sym_", "executorch_call")):
            yield node


def operator_name(node: torch.fx.Node) -> str:
    """"aten::mm", of a torch operator or of ExecuTorch's wrapper around it."""
    schema = getattr(node.target, "_schema", None)
    return schema.name if schema is not None else ""


def arithmetic(node: torch.fx.Node) -> int:
    """Multiplications of a product or a convolution; 0 of all else."""
    name, val = operator_name(node), node.meta["val"]
    if name in ("aten::mm", "aten::bmm", "aten::matmul", "aten::linear"):
        return val.numel() * node.args[0].meta["val"].shape[-1]
    if name == "aten::addmm":
        return val.numel() * node.args[1].meta["val"].shape[-1]
    if name == "aten::scaled_dot_product_attention":
        query, key = (argument.meta["val"] for argument in node.args[:2])
        return query.numel() * key.shape[-2] + val.numel() * key.shape[-2]
    if name == "aten::convolution":
        weight = node.args[1].meta["val"]
        return val.numel() * math.prod(weight.shape[1:])
    return 0


def table(results: dict[str, dict[str, dict]]) -> str:
    """The results as a Markdown table: a row a model and engine, and a row of ratios."""
    lines = [
        "| model | engine | lower s (runs) | partitions | nodes inside | nodes outside | delegated | arithmetic "
        "| .pte kB | planned kB | latency ms | error |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model, by_engine in results.items():
        for engine in ENGINES:
            r = by_engine[engine]
            share = r["nodes_inside"] / (r["nodes_inside"] + r["nodes_outside"])
            lines.append(
                f"| {model} | {engine} | {r['seconds']:.2f} ({r['runs']}) | {r['partitions']} | {r['nodes_inside']} "
                f"| {r['nodes_outside']} | {share:.0%} | {r['arithmetic']:.0%} | {r['pte_bytes'] / 1e3:.1f} "
                f"| {r['planned_bytes'] / 1e3:.1f} | {r['latency_ms']:.2f} | {r['max_error']:.1e} |"
            )
        theirs, ours = (by_engine[e] for e in ENGINES)
        lines.append(
            f"| {model} | ratio | **{theirs['seconds'] / ours['seconds']:.0f}×** | | | | | "
            f"| {theirs['pte_bytes'] / ours['pte_bytes']:.2f}× "
            f"| {theirs['planned_bytes'] / ours['planned_bytes']:.2f}× "
            f"| **{theirs['latency_ms'] / ours['latency_ms']:.2f}×** | |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join((*models.MODELS, *_QUANTIZED)), help="comma-separated")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each engine and model, at most (default 3)")
    parser.add_argument("--child", nargs="+", metavar="ARGUMENT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, *lowering = options.child
        print(json.dumps(measure(*lowering, Path(folder), options.repeat) if lowering else run(Path(folder))))
        return
    results: dict[str, dict[str, dict]] = {}
    for model in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            child = (__file__, "--repeat", str(options.repeat), "--child", folder)
            lowered = {engine: in_child(*child, engine, model) for engine in ENGINES}
            ran = in_child(*child)
        results[model] = {engine: {**lowered[engine], **ran[engine]} for engine in ENGINES}
        seconds = ", ".join(f"{engine} {lowered[engine]['seconds']:.2f} s" for engine in ENGINES)
        print(f"{model}: {seconds}", file=sys.stderr)
    print(f"{versions()}\n\n{table(results)}")


if __name__ == "__main__":
    main()
