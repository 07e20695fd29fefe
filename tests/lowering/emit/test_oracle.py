"""Structure for which there is one right answer, against ExecuTorch's own lowering of the same models."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import pytest
import torch

from rules_executorch.lowering.emit.emit import EmittedProgram
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.format.write import pte_bytes
from support import zoo
from support.emission import emit
from support.official_runtime import run_methods

pytestmark = pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="the executorch wheel is absent")

MODELS = [
    "mlp_dynamic_batch", "lenet", "transformer_encoder", "decoder_with_kv_cache", "gru", "resnet_like", "unet",
    "lstm_cell_step", "multi_output_heads", "detection_head_dynamic", "moving_average_state", "conv1d_text",
]  # fmt: skip


@functools.lru_cache(maxsize=None)
def theirs(name: str) -> bytes:
    from executorch import exir

    case = zoo.make(name)
    with torch.no_grad():
        exported = torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes)
    config = exir.EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[torch.ops.aten.linear.default])
    return exir.to_edge(exported, compile_config=config).to_executorch().buffer


@functools.lru_cache(maxsize=None)
def ours(name: str) -> EmittedProgram:
    case = zoo.make(name)
    return emit(case.module, case.inputs, case.dynamic_shapes)


def plans(name: str) -> tuple[schema.ExecutionPlan, schema.ExecutionPlan]:
    return ours(name).program_file.program.execution_plan[0], read_pte(theirs(name)).program.execution_plan[0]


def shapes(plan: schema.ExecutionPlan, indices: tuple[int, ...]) -> list[Any]:
    tensors = [plan.values[index] for index in indices]
    return [(t.scalar_type, t.sizes, t.dim_order, t.shape_dynamism) for t in tensors if isinstance(t, schema.Tensor)]


@pytest.mark.parametrize("name", MODELS)
def test_inputs_and_outputs_are_the_same(name: str) -> None:
    mine, reference = plans(name)
    assert mine.name == reference.name
    assert shapes(mine, mine.inputs) == shapes(reference, reference.inputs)
    assert shapes(mine, mine.outputs) == shapes(reference, reference.outputs)
    assert mine.container_meta_type == reference.container_meta_type


@pytest.mark.parametrize("name", MODELS)
def test_no_more_memory_is_planned(name: str) -> None:
    mine, reference = plans(name)
    assert sum(mine.non_const_buffer_sizes) <= sum(reference.non_const_buffer_sizes)


@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_not_larger(name: str) -> None:
    # Theirs leaves out what state is at first.
    states = ours(name).program_file.program.mutable_data_segments or ()
    state = sum(ours(name).program_file.segments[table.segment_index].size for table in states)
    calls = [len(plan.chains[0].instructions) for plan in plans(name)]  # a convolution is several, of 80 bytes each
    assert len(pte_bytes(ours(name))) <= len(theirs(name)) + state + 256 + 80 * max(calls[0] - calls[1], 0)


@pytest.mark.parametrize("name", MODELS)
def test_their_files_can_be_read_and_written_again(name: str) -> None:
    program = read_pte(theirs(name))
    written = pte_bytes(program)
    assert isinstance(program, ProgramFile) and read_pte(written) == program
    assert len(written) <= len(theirs(name))
    case = zoo.make(name)
    mine, reference = (run_methods(pte, [("forward", case.inputs)])[0] for pte in (written, theirs(name)))
    for a, b in zip(mine, reference):
        assert torch.equal(a, b)
