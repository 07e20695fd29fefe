"""Weights: once in a program, whoever uses them, and never copied on their way from the checkpoint to the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering import save_program, to_edge_transform_and_lower
from rules_executorch.lowering.format.read import read_pte
from support.children import python_path
from support.official_runtime import run_methods
from torch import nn

PARTITIONER = [XnnpackPartitioner()]


class Tied(nn.Module):
    """One weight in an embedding, and in products of two partitions; one of its integers too."""

    def __init__(self, integers: bool):
        super().__init__()
        self.table = nn.Embedding(64, 64)
        self.integers = integers
        self.register_buffer("rows", torch.randint(-100, 100, (64, 64), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(64) / 100)
        self.register_buffer("zeros", torch.zeros(64, dtype=torch.int64))

    def weight(self) -> torch.Tensor:
        if not self.integers:
            return self.table.weight
        return torch.ops.quantized_decomposed.dequantize_per_channel(
            self.rows, self.scales, self.zeros, 0, -128, 127, torch.int8
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight()
        y = nn.functional.linear(x, weight).cumsum(-1).tanh()  # cumsum is the CPU's, so that there are two partitions
        return nn.functional.linear(y, weight)

    def look_up(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.table(tokens), self.weight())


@pytest.mark.parametrize("integers", [False, True], ids=["floats", "dequantized integers"])
def test_a_weight_of_several_partitions_and_methods_is_in_the_file_once(integers: bool) -> None:
    import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers dequantize_per_channel)

    torch.manual_seed(0)
    model = Tied(integers).eval()
    x, tokens = torch.randn(2, 64), torch.tensor([[3, 1, 60]])
    programs = {
        "forward": torch.export.export(model, (x,)),
        "look_up": torch.export.export(Looking(model), (tokens,)),
    }
    manager = to_edge_transform_and_lower(programs, partitioner={name: PARTITIONER for name in programs})
    pte = manager.to_executorch().buffer
    file = read_pte(pte)
    delegates = [len(plan.delegates) for plan in file.program.execution_plan]
    assert delegates == [2, 1]
    in_delegates = [len(file.named_data(entry.key)) for entry in file.program.named_data]
    assert in_delegates.count(64 * 64 * 4) == 1
    table = 64 * 64 * 4  # the embedding's, which is not that of the products where these have integers
    assert len(pte) < table + (table if integers else 0) + 16_000
    with torch.no_grad():
        ((forward,), (looked_up,)) = run_methods(pte, [("forward", (x,)), ("look_up", (tokens,))])
        torch.testing.assert_close(forward, model(x), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(looked_up, model.look_up(tokens), rtol=1e-4, atol=1e-4)


class Looking(nn.Module):
    def __init__(self, model: Tied):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model.look_up(tokens)


# Prints how much memory of its own a process takes at most, in MiB, to lower a program that was saved in a folder.
LOWERING = """
import sys, threading
from pathlib import Path

import torch
from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering import load_program, to_edge_transform_and_lower

def lower(program, path):
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    with open(path, "wb") as file:
        lowered.write_to_file(file)

def own():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1]) / 1024

def sample():
    while not done.wait(0.002):
        samples.append(own())

folder = Path(sys.argv[1])
lower(torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),)), folder / "small.pte")
before, samples, done = own(), [], threading.Event()
sampler = threading.Thread(target=sample)
sampler.start()
lower(load_program(folder / "graph", [folder / "weights"]), folder / "model.pte")
done.set()
sampler.join()
print(max(samples) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's account of memory is read")
def test_weights_are_mapped_from_the_checkpoint_to_the_file(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4)))
    save_program(torch.export.export(model, (torch.randn(1, 2048),)), tmp_path / "graph", tmp_path / "weights")
    command = [sys.executable, "-c", LOWERING, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert (tmp_path / "model.pte").stat().st_size > 64 * 2**20
    assert float(done.stdout) < 16, "no weight, of 16 MiB each, has been copied"
