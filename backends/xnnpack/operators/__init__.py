"""The table of operators: what each ATen operator is made of, for the partitioner and for preprocess alike."""

from __future__ import annotations

from . import (  # noqa: F401  (they register themselves)
    attention,
    convolution,
    elementwise,
    linear,
    normalization,
    pooling,
    quantized,
    shapes,
)
from .table import encode, encoder_of

__all__ = ["encode", "encoder_of"]
