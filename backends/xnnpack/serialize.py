"""A graph → the delegate's blob: a header, then tables in a flatbuffer. Constants are named data."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import torch
from rules_executorch.lowering.delegation.named_data import NamedDataStore

from .builder import TORCH_TYPES
from .graph import Graph, Node, Size, Value
from .schema import EXTERNAL_INPUT, EXTERNAL_OUTPUT, KINDS, NO_VALUE, DataType, Slot

_HEADER_BYTES = 32
_ALIGNMENT = 16
_BY_KEY = 2**64 - 1  # instead of an offset: the data are found by their key
_TENSOR, _QUANTIZED_TENSOR = 1, 2
_PER_CHANNEL, _PER_TENSOR, _PER_TOKEN, _PER_GROUP = 1, 2, 3, 4


def serialize(graph: Graph, bound: Callable[[Size], int], store: NamedDataStore) -> bytes:
    """The blob of a finished graph (see finish.py). `bound` gives the largest that a size can be.

    Constants go into `store`, under keys that are digests of their bytes.
    """
    return _with_header(_Writer(graph, bound, store).write())


def _with_header(flatbuffer: bytes) -> bytes:
    padded = -(-len(flatbuffer) // _ALIGNMENT) * _ALIGNMENT
    header = struct.pack("<4s4sHIIIQ", b"", b"XH00", 30, _HEADER_BYTES, len(flatbuffer), _HEADER_BYTES + padded, 0)
    return header.ljust(_HEADER_BYTES, b"\0") + flatbuffer.ljust(padded, b"\0")


def _packed(nibbles: torch.Tensor) -> torch.Tensor:
    """Numbers from -8 to 7 as two to a byte, even columns in the low half, stored with 8 added."""
    stored = torch.nn.functional.pad(nibbles.to(torch.int16) + 8, (0, nibbles.shape[-1] % 2), value=8)
    return (stored[..., ::2] | (stored[..., 1::2] << 4)).to(torch.uint8)


class _Writer:
    """Flatbuffers are written from the leaves up, so ids are given in a first walk over the nodes."""

    def __init__(self, graph: Graph, bound: Callable[[Size], int], store: NamedDataStore):
        self._graph = graph
        self._bound = bound
        self._store = store
        self._builder = flatbuffers.Builder(1024)
        self._ids: dict[Value, int] = {}
        self._vectors: dict[tuple[str, tuple[float, ...]], int] = {}
        self._constants: list[str] = []  # keys; entry i is buffer i + 1
        self._constant_index: dict[str, int] = {}
        count = len(graph.inputs)
        self._external = {value: (i, EXTERNAL_INPUT) for i, value in enumerate(graph.inputs) if value is not None}
        self._external.update({value: (count + i, EXTERNAL_OUTPUT) for i, value in enumerate(graph.outputs)})

    def write(self) -> bytes:
        graph = self._graph
        for value in (*(v for v in graph.inputs if v is not None), *graph.outputs):
            self._id(value)
        for node in graph.nodes:
            for operand in (*node.operands, *node.results):
                if operand is not None:
                    self._id(operand)
        values = self._vector([self._value(value) for value in self._ids])
        nodes = self._vector([self._node(node) for node in graph.nodes])
        data = self._vector([self._constant_entry(None), *map(self._constant_entry, self._constants)])
        inputs = self._numbers([self._ids[v] for v in graph.inputs if v is not None], "I")
        outputs = self._numbers([self._ids[v] for v in graph.outputs], "I")
        version = self._builder.CreateString("0")
        root = self._table(
            9, {0: version, 1: nodes, 2: values, 4: inputs, 5: outputs, 8: data},
            scalars={3: ("Uint32", len(graph.inputs) + len(graph.outputs))},
        )  # fmt: skip
        self._builder.Finish(root, file_identifier=b"XN01")
        return bytes(self._builder.Output())

    def _id(self, value: Value) -> int:
        return self._ids.setdefault(value, len(self._ids))

    # -- Values -------------------------------------------------------------------------------

    def _value(self, value: Value) -> int:
        external_id, flags = self._external.get(value, (NO_VALUE, 0))
        dims = self._numbers([self._bound(size) for size in value.sizes], "I")
        quantization = self._quantization(value)
        buffer = 0 if value.constant is None else self._constant(value)
        tensor = self._table(
            7, {2: dims},
            scalars={
                0: ("Int16", int(value.dtype)), 1: ("Uint32", value.rank), 3: ("Uint32", buffer),
                4: ("Uint32", external_id), 5: ("Uint32", flags), 6: ("Uint32", self._ids[value]),
            },
        )  # fmt: skip
        if quantization is None:
            return self._table(2, {1: tensor}, scalars={0: ("Uint8", _TENSOR)})
        kind, parameters = quantization
        quantized = self._table(3, {0: tensor, 2: parameters}, scalars={1: ("Uint8", kind)})
        return self._table(2, {1: quantized}, scalars={0: ("Uint8", _QUANTIZED_TENSOR)})

    def _quantization(self, value: Value) -> tuple[int, int] | None:
        q = value.quantization
        if q is None:
            return None
        if q.scale is not None:
            scalars = {0: ("Float32", q.scale), 1: ("Int32", q.zero_point)}
            return _PER_TENSOR, self._table(2, {}, scalars=scalars)
        if q.scales is None:
            return _PER_TOKEN, self._table(1, {}, scalars={0: ("Int32", q.row_dims)})
        scales = q.scales().to(torch.float32 if q.group_size is None else torch.bfloat16).contiguous()
        buffer, empty = self._named(scales), self._numbers([], "f")
        if q.group_size is None:
            scalars = {1: ("Int32", q.channel_dim), 2: ("Uint32", buffer), 3: ("Uint32", scales.numel())}
            return _PER_CHANNEL, self._table(4, {0: empty}, scalars=scalars)
        scalars = {
            1: ("Int32", q.channel_dim), 2: ("Int32", q.group_size),
            4: ("Uint32", buffer), 5: ("Uint32", scales.numel()),
        }  # fmt: skip
        return _PER_GROUP, self._table(6, {0: empty}, scalars=scalars)

    def _constant(self, value: Value) -> int:
        assert value.constant is not None
        tensor = value.constant()
        if value.dtype in TORCH_TYPES:
            tensor = tensor.to(TORCH_TYPES[value.dtype])
        elif value.dtype in (DataType.QCINT4, DataType.QBINT4):
            tensor = _packed(tensor)
        return self._named(tensor.contiguous())

    def _named(self, tensor: torch.Tensor) -> int:
        key = self._store.add_by_content(tensor, alignment=_ALIGNMENT)
        if key not in self._constant_index:
            self._constants.append(key)
            self._constant_index[key] = len(self._constants)
        return self._constant_index[key]

    def _constant_entry(self, key: str | None) -> int:
        """Where a constant is; the first entry stands for none."""
        offsets = {} if key is None else {2: self._builder.CreateString(key)}
        return self._table(3, offsets, scalars={} if key is None else {0: ("Uint64", _BY_KEY)})

    # -- Nodes --------------------------------------------------------------------------------

    def _node(self, node: Node) -> int:
        kind = KINDS[node.kind]
        fields = {index: self._slot(node, slot) for index, slot in enumerate(kind.slots)}
        vectors = {index: field for index, field in fields.items() if isinstance(field, int)}
        payload = self._table(
            len(fields), vectors, scalars={i: field for i, field in fields.items() if isinstance(field, tuple)}
        )  # fmt: skip
        bounds = {}
        if (node.low, node.high) != (float("-inf"), float("inf")):
            bounds = {3: self._table(2, {}, scalars={0: ("Float32", node.low), 1: ("Float32", node.high)})}
        scalars = {0: ("Uint8", kind.number), 2: ("Uint32", node.debug_handle)}
        return self._table(4, {1: payload, **bounds}, scalars=scalars)

    def _slot(self, node: Node, slot: Slot) -> Any:
        """A slot's content: the offset of a vector, or (type, number)."""
        if slot.name[:-1] in ("in", "out"):
            operands = node.operands if slot.name.startswith("in") else node.results
            index = int(slot.name[-1])
            operand = operands[index] if index < len(operands) else None
            return "Uint32", NO_VALUE if operand is None else self._ids[operand]
        if slot.name == "num_dims":
            return "Uint32", node.result.rank
        if slot.name == "new_shape":  # 0 is inferred
            return self._numbers([size if isinstance(size, int) else 0 for size in node.result.sizes], "I")
        if slot.name == "sizes":  # 0 is all there is
            return self._numbers([size if isinstance(size, int) else 0 for size in node.result.sizes], "I")
        value = node.attributes.get(slot.name, 0)
        if slot.type.startswith("["):
            return self._numbers(value, "I")
        return ("Float32" if slot.type == "f32" else "Uint32"), value

    # -- Flatbuffers --------------------------------------------------------------------------

    def _numbers(self, numbers: Sequence[float], code: str) -> int:
        """A vector of numbers of four bytes; equal ones, such as sizes, are written once."""
        key = code, tuple(numbers)
        if key not in self._vectors:
            self._builder.StartVector(4, len(numbers), 4)
            prepend = self._builder.PrependUint32 if code == "I" else self._builder.PrependFloat32
            for number in reversed(numbers):
                prepend(number)
            self._vectors[key] = self._builder.EndVector()
        return self._vectors[key]

    def _vector(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return self._builder.EndVector()

    def _table(self, slots: int, offsets: dict[int, int], *, scalars: dict[int, tuple[str, float]]) -> int:
        """A table of offsets and numbers by slot. Numbers are written even where they are the default."""
        builder = self._builder
        builder.StartObject(slots)
        for slot, offset in offsets.items():
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        for slot, (type_, number) in scalars.items():
            getattr(builder, f"Prepend{type_}")(number)
            builder.Slot(slot)
        return builder.EndObject()
