"""Planned memory is at most what ExecuTorch plans, whether inputs and outputs are planned or the caller's."""

from __future__ import annotations

import functools
import importlib.util

import pytest
import torch
from support import zoo
from torch.export import ExportedProgram

from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.emit.emit import emit_program

pytestmark = pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="the executorch wheel is absent")

# Small relatives of the models that benchmarks/memory.py plans.
MODELS = ("transformer_encoder", "vgg_like", "mobilenet_v2_like", "resnet_like", "decoder_with_kv_cache", "mlp")


@functools.cache
def exported(model: str) -> ExportedProgram:
    case = zoo.make(model)
    with torch.no_grad():
        return torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes)


def planned_by_executorch(program: ExportedProgram, inputs: bool, outputs: bool) -> int:
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    memory = MemoryPlanningPass(alloc_graph_input=inputs, alloc_graph_output=outputs)
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    plan = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory)).executorch_program.execution_plan[0]
    return sum(plan.non_const_buffer_sizes)


@pytest.mark.parametrize(("inputs", "outputs"), [(True, True), (False, False)])
@pytest.mark.parametrize("model", MODELS)
def test_no_more_memory_is_planned_than_by_executorch(model: str, inputs: bool, outputs: bool) -> None:
    memory = MemoryConfig(alloc_graph_input=inputs, alloc_graph_output=outputs)
    emitted = emit_program({"forward": to_edge_program(exported(model))}, config=EmitConfig(memory))
    planned = sum(emitted.program_file.program.execution_plan[0].non_const_buffer_sizes)
    report = emitted.memory["forward"]
    assert report.lower_bound + report.state <= planned <= planned_by_executorch(exported(model), inputs, outputs)
