"""A backend to copy: small, complete, and registered when it is imported."""

from __future__ import annotations

from rules_executorch.lowering.delegation.backend import register_backend

from .partitioner import ReferencePartitioner
from .preprocess import BACKEND_ID, ReferenceBackend

register_backend(BACKEND_ID, ReferenceBackend)

__all__ = ["BACKEND_ID", "ReferenceBackend", "ReferencePartitioner"]
