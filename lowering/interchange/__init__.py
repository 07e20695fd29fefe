"""Programs as files: the graph as JSON, the tensors as safetensors, and no pickle."""

from __future__ import annotations

from .load import load_program
from .save import save_program

__all__ = ["load_program", "save_program"]
