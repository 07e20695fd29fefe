"""Programs as files: the graph as JSON, the tensors as safetensors, and no pickle."""

from __future__ import annotations

from .load import load_program, open_program
from .pt2 import load_pt2
from .save import save_program

__all__ = ["load_program", "load_pt2", "open_program", "save_program"]
