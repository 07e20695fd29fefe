"""XNNPACK, ExecuTorch's backend for CPUs; registered when this is imported."""

from __future__ import annotations

from rules_executorch.lowering.delegation.backend import register_backend

from .partitioner import XnnpackPartitioner
from .preprocess import BACKEND_ID, XnnpackBackend

register_backend(BACKEND_ID, XnnpackBackend)

__all__ = ["BACKEND_ID", "XnnpackBackend", "XnnpackPartitioner"]
