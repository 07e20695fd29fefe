"""PyTorch's element types ↔ the file's."""

from __future__ import annotations

import torch

from ..errors import LoweringError
from ..format.schema import ScalarType

_BY_NAME = {
    "uint8": ScalarType.UINT8,
    "int8": ScalarType.INT8,
    "int16": ScalarType.INT16,
    "int32": ScalarType.INT32,
    "int64": ScalarType.INT64,
    "float16": ScalarType.FLOAT16,
    "float32": ScalarType.FLOAT32,
    "float64": ScalarType.FLOAT64,
    "complex32": ScalarType.COMPLEX32,
    "complex64": ScalarType.COMPLEX64,
    "complex128": ScalarType.COMPLEX128,
    "bool": ScalarType.BOOL,
    "qint8": ScalarType.QINT8,
    "quint8": ScalarType.QUINT8,
    "qint32": ScalarType.QINT32,
    "bfloat16": ScalarType.BFLOAT16,
    "float8_e5m2": ScalarType.FLOAT8_E5M2,
    "float8_e4m3fn": ScalarType.FLOAT8_E4M3FN,
    "uint16": ScalarType.UINT16,
    "uint32": ScalarType.UINT32,
    "uint64": ScalarType.UINT64,
}
_SCALAR_TYPES = {getattr(torch, name): scalar_type for name, scalar_type in _BY_NAME.items()}


def scalar_type(dtype: torch.dtype) -> ScalarType:
    """The file's number for `dtype`. Raises LoweringError for a type that the format lacks."""
    if dtype not in _SCALAR_TYPES:
        remedy = "convert the tensor to another dtype"
        raise LoweringError(f"the .pte format has no tensors of {dtype}", remedies=[remedy])
    return _SCALAR_TYPES[dtype]
