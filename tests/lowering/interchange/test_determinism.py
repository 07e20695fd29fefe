"""The same model gives the same files, in any process and from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.children import python_path

MODEL = """
import os
import torch
from rules_executorch.lowering.interchange import save_program

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, *, source, other):
        return {"b": self.layer(source), "a": torch.cond(source.sum() > 0, lambda x: x + 1, lambda x: x * 2, (other,))}

# torch numbers the code that it generates, through the life of a process.
for _ in range(int(os.environ["PYTHONHASHSEED"])):
    torch.fx.symbolic_trace(torch.nn.ReLU())
size = torch.export.Dim("size", min=2, max=64)
inputs = {"source": torch.ones(1, 5, 8), "other": torch.ones(5)}
shapes = {"source": {1: size}, "other": {0: size}}
program = torch.export.export(Model().eval(), (), inputs, dynamic_shapes=shapes)
"""


def export_in(folder: Path, hash_seed: str) -> tuple[bytes, bytes]:
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    subprocess.run(
        [sys.executable, "-c", "import model; model.save_program(model.program, 'g', 'c')"],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": python_path(folder), "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=120,
    )
    return (folder / "g").read_bytes(), (folder / "c").read_bytes()


def test_neither_hash_seed_nor_folder_nor_what_was_done_before_changes_a_byte(tmp_path: Path):
    first = export_in(tmp_path / "here", "1")
    assert first == export_in(tmp_path / "elsewhere" / "deeper", "2")
    assert str(tmp_path).encode() not in first[0]
    assert b'"File \\"model.py\\", line ' in first[0]
