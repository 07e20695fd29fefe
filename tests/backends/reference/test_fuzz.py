"""Hostile blobs: the device runtime refuses or runs them, and touches no memory that is not its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from rules_executorch.backends.reference import BACKEND_ID
from rules_executorch.backends.reference.blob import deserialize
from rules_executorch.lowering import to_edge_transform_and_lower
from rules_executorch.lowering.delegation.backend import DelegationSpec
from rules_executorch.lowering.delegation.lowered_module import LoweredBackendModule, lowered_modules
from rules_executorch.lowering.delegation.named_data import tensor_bytes
from support.reference_runtime import program

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "3000"))


class Everything(torch.nn.Module):
    """At least one instruction of each family of kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 6)
        self.norm = torch.nn.LayerNorm(6)
        self.linear = torch.nn.Linear(6, 4)
        self.register_buffer("state", torch.zeros(1, 4))

    def forward(self, tokens: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.norm(self.embedding(tokens) + x[: tokens.shape[0]].unsqueeze(0))
        y = torch.softmax(self.linear(y), -1)[0]
        z = torch.cat([torch.relu(y), torch.where(y > 0.2, y, -y)], 1)
        self.state.add_(y[:1])
        w = torch.bmm(z.unsqueeze(0), z.transpose(0, 1).unsqueeze(0).expand(1, 8, -1))
        return w.masked_fill(w > 3, 0.0).reshape(-1), torch.nn.functional.gelu(self.state), tokens + 1


@pytest.fixture(scope="module")
def delegate() -> LoweredBackendModule:
    size = torch.export.Dim("n", min=1, max=5)
    inputs: tuple[Any, ...] = (torch.tensor([1, 2, 3]), torch.randn(5, 6))
    exported = torch.export.export(Everything(), inputs, dynamic_shapes=({0: size}, None))
    lowered = to_edge_transform_and_lower(exported, partitioner=DelegationSpec(BACKEND_ID))
    return next(lowered_modules(lowered.exported_program().graph_module))


def test_mutated_blobs_touch_no_memory_that_is_not_theirs(delegate: LoweredBackendModule, tmp_path: Path) -> None:
    data = delegate.named_data_store_output
    (tmp_path / "blob").write_bytes(delegate.processed_bytes)
    constants = deserialize(delegate.processed_bytes).constants
    buffers = (data.buffers[data.pte_data[constant.key].buffer_index] for constant in constants)
    (tmp_path / "constants").write_bytes(b"".join(map(tensor_bytes, buffers)))
    main = Path(__file__).with_name("fuzz.cc")
    fuzz = program(main, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    options = "allocator_may_return_null=1:max_allocation_size_mb=64:detect_leaks=0:verify_asan_link_order=0"
    done = subprocess.run(
        [fuzz, tmp_path / "blob", tmp_path / "constants", str(ROUNDS), "1"],
        env={**os.environ, "ASAN_OPTIONS": options}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    unread, unset, failed, ran = map(int, re.findall(r"\d+", done.stdout))
    assert unread + unset + failed + ran == ROUNDS + 1
    assert min(unread, failed, ran) > ROUNDS // 100, "the mutants should reach all parts of the runtime"
