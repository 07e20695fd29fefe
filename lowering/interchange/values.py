"""What a node computes (`node.meta["val"]`), to and from plain data.

A tensor is its dtype, sizes, strides, device and whether it requires grad; sizes may be symbolic.
Reading makes fake tensors, which have no storage of their own to speak of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..errors import InvalidFileError, LoweringError
from .expressions import ExpressionReader, ExpressionWriter
from .interning import Table

DTYPES: Mapping[str, torch.dtype] = {
    str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)
}
DTYPE_NAMES = {value: name for name, value in sorted(DTYPES.items(), reverse=True)}
LAYOUTS: Mapping[str, torch.layout] = {
    str(layout): layout for layout in (torch.strided, torch.sparse_coo, torch.jagged)
}
MEMORY_FORMATS: Mapping[str, torch.memory_format] = {
    str(value): value
    for value in (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
}


def encode_number(value: Any, expressions: ExpressionWriter) -> Any:
    """A number, symbolic or not: itself, or `[kind, expression]`."""
    for kind, symbolic in (("int", torch.SymInt), ("float", torch.SymFloat), ("bool", torch.SymBool)):
        if isinstance(value, symbolic):
            if value.node.constant is not None:
                return value.node.constant
            return [kind, expressions.add(value.node.expr, value.node.shape_env)]
    return value


def decode_number(data: Any, expressions: ExpressionReader) -> Any:
    """The number that `encode_number` wrote."""
    if isinstance(data, list):
        kind, index = data
        return expressions.number(kind, index)
    return data


class ValueWriter:
    """Collects the metadata of values; equal tensors share an entry."""

    def __init__(self, expressions: ExpressionWriter):
        self.table = Table()
        self._expressions = expressions

    def encode(self, value: Any) -> Any:
        """Plain data for a node's value. Raises LoweringError for a value of a kind that files do not hold."""
        if isinstance(value, torch.Tensor):
            return ["tensor", self._tensor(value)]
        if isinstance(value, (list, tuple)):
            return ["list" if isinstance(value, list) else "tuple", *map(self.encode, value)]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return ["number", encode_number(value, self._expressions)]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise LoweringError(f"a value of type {type(value).__name__} cannot be written to a file")

    def _tensor(self, tensor: torch.Tensor) -> int:
        if tensor.layout is not torch.strided or type(tensor) not in (FakeTensor, torch.Tensor, torch.nn.Parameter):
            raise LoweringError(f"a {tensor.layout} tensor of type {type(tensor).__name__} cannot be written to a file")
        entry = [
            DTYPE_NAMES[tensor.dtype],
            [encode_number(size, self._expressions) for size in tensor.shape],
            [encode_number(stride, self._expressions) for stride in tensor.stride()],
            str(tensor.device),
            tensor.requires_grad,
        ]
        return self.table.add(repr(entry), entry)


class ValueReader:
    """Gives back values as fake tensors of one mode, and symbolic numbers."""

    def __init__(self, table: Sequence[Any], expressions: ExpressionReader):
        self._table = table
        self._expressions = expressions
        self._mode = FakeTensorMode(shape_env=expressions.shape_env, allow_non_fake_inputs=True, export=True)
        self._shared: dict[int, torch.Tensor] = {}

    def decode(self, data: Any, *, own_storage: bool = False) -> Any:
        """A node's value. Inputs need `own_storage`: two that shared one would be taken for aliases."""
        if not isinstance(data, list):
            return data
        kind, *rest = data
        if kind == "tensor":
            return self._tensor(rest[0], own_storage)
        if kind in ("list", "tuple"):
            items = [self.decode(item, own_storage=own_storage) for item in rest]
            return items if kind == "list" else tuple(items)
        if kind == "number":
            return decode_number(rest[0], self._expressions)
        raise InvalidFileError(f"edge program: {kind!r} is no kind of value")

    def _tensor(self, index: int, own_storage: bool) -> FakeTensor:
        dtype, sizes, strides, device, requires_grad = self._table[index]
        meta = None if own_storage else self._shared.get(index)
        if meta is None:
            meta = torch.empty_strided(
                [decode_number(size, self._expressions) for size in sizes],
                [decode_number(stride, self._expressions) for stride in strides],
                dtype=DTYPES[dtype],
                device="meta",
            )
            self._shared[index] = meta
        fake = FakeTensor(self._mode, meta, torch.device(device))
        if requires_grad:
            fake.requires_grad_(True)
        return fake
