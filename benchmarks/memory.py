"""Planned memory: ExecuTorch's plan and this project's, with inputs and outputs planned or left to the caller.

    python benchmarks/memory.py [--models transformer6,cnn16]

In kB, activations and state together; "least" is what is alive at the worst moment of this project's instructions,
which no plan for them can go below. Nothing is timed, so it can run on a busy machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.export import ExportedProgram

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from measure import versions  # noqa: E402

MODELS = "transformer6,transformer12,cnn16,mobilenet,resnet,decoder_step,linears12"


def by_executorch(program: ExportedProgram, planned: bool) -> int:
    """Bytes that ExecuTorch plans for the program of `program`."""
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    memory = MemoryPlanningPass(alloc_graph_input=planned, alloc_graph_output=planned)
    plan = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory)).executorch_program.execution_plan[0]
    return sum(plan.non_const_buffer_sizes)


def by_this_project(program: ExportedProgram, planned: bool) -> tuple[int, int]:
    """Bytes that are planned here, and the least that any plan needs."""
    from rules_executorch.lowering.edge.to_edge import to_edge_program
    from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
    from rules_executorch.lowering.emit.emit import emit_program

    memory = MemoryConfig(alloc_graph_input=planned, alloc_graph_output=planned)
    emitted = emit_program({"forward": to_edge_program(program)}, config=EmitConfig(memory))
    plan, report = emitted.program_file.program.execution_plan[0], emitted.memory["forward"]
    return sum(plan.non_const_buffer_sizes), report.lower_bound + report.state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS, help="comma-separated")
    options = parser.parse_args()
    print(f"{versions()}\n")
    print("| model | inputs and outputs | executorch kB | rules_executorch kB | least kB | ratio |\n|---|---|---|---|---|---|")
    for model in options.models.split(","):
        for planned in (True, False):
            module, inputs = models.make(model)
            with torch.no_grad():
                ours, least = by_this_project(torch.export.export(module, inputs), planned)
                theirs = by_executorch(torch.export.export(module, inputs), planned)
            where = "planned" if planned else "the caller's"
            sizes = " | ".join(f"{size / 1000:.1f}" for size in (theirs, ours, least))
            ratio = f"{theirs / ours:.2f}×" if ours else "all of it"
            print(f"| {model} | {where} | {sizes} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
