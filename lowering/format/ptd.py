"""Tensor data files (.ptd): named tensors and named bytes beside a program."""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from ..errors import InvalidFileError
from .check import MAX_RANK
from .container import SEGMENT_ALIGNMENT, Data, Segment, align, destination, insert_header, stream
from .decode import decode
from .encode import encode
from .read import source_view
from .schema import ELEMENT_SIZE, DataSegment, ScalarType
from .table import I8, I32, U8, U32, String, Vector, slot

FILE_IDENTIFIER = b"FT01"
_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ")
_INSERTED = 48  # the header, padded to the alignment of the tables


@dataclass(frozen=True)
class TensorLayout:
    """Shape and element type of a tensor; `dim_order` is the order of its dimensions in memory."""

    scalar_type: int = slot(0, I8)
    sizes: tuple[int, ...] = slot(1, Vector(I32))
    dim_order: tuple[int, ...] = slot(2, Vector(U8))


@dataclass(frozen=True)
class _NamedData:
    key: str = slot(0, String())
    segment_index: int = slot(1, U32)
    tensor_layout: TensorLayout | None = slot(2, TensorLayout, None)


@dataclass(frozen=True)
class _FlatTensor:
    version: int = slot(0, U32)
    segments: tuple[DataSegment, ...] = slot(1, Vector(DataSegment))
    named_data: tuple[_NamedData, ...] = slot(2, Vector(_NamedData))


@dataclass(frozen=True)
class TensorEntry:
    """One key's data: an index into the buffers, and the layout if they are a tensor's."""

    buffer_index: int
    layout: TensorLayout | None = None


@dataclass(frozen=True)
class TensorData:
    """A .ptd file as values: buffers with their alignments in bytes, and the keys that name them."""

    buffers: tuple[Data, ...] = ()
    entries: Mapping[str, TensorEntry] = field(default_factory=dict)
    alignments: tuple[int, ...] = ()


def write_ptd(data: TensorData, file: BinaryIO | os.PathLike[str] | str) -> None:
    """Write to a binary file, or to a path, which appears whole or not at all."""
    segments: list[Segment] = []
    end = 0
    for index, buffer in enumerate(data.buffers):
        alignment = data.alignments[index] if data.alignments else 1
        start = align(end, math.lcm(SEGMENT_ALIGNMENT, alignment))
        segments.append(Segment(start, len(buffer), ((0, buffer),)))
        end = start + len(buffer)
    tables = _FlatTensor(
        0,
        tuple(DataSegment(segment.offset, segment.size) for segment in segments),
        tuple(_NamedData(key, entry.buffer_index, entry.layout) for key, entry in data.entries.items()),
    )
    flatbuffer = encode(tables, FILE_IDENTIFIER)
    base = align(len(flatbuffer) + _INSERTED, SEGMENT_ALIGNMENT)
    header = _HEADER.pack(_MAGIC, _HEADER.size, _INSERTED, len(flatbuffer), base, end)
    with destination(file) as output:
        stream(output, insert_header(flatbuffer, header, _INSERTED), segments, base)


def ptd_bytes(data: TensorData) -> bytes:
    """What write_ptd writes."""
    buffer = io.BytesIO()
    write_ptd(data, buffer)
    return buffer.getvalue()


def read_ptd(source: bytes | memoryview | os.PathLike[str] | str) -> TensorData:
    """Read a .ptd file; a path is memory-mapped.

    Raises:
        InvalidFileError: this is not a sound .ptd file; one line says why.
        OSError: the file cannot be opened.
    """
    buffer = source_view(source)
    if len(buffer) < 8 + _HEADER.size or buffer[4:8] != FILE_IDENTIFIER or buffer[8:12] != _MAGIC:
        raise InvalidFileError("invalid .ptd file: it has no .ptd header")
    _, _, _, tables_size, base, size = _HEADER.unpack_from(buffer, 8)
    if base + size > len(buffer):
        raise InvalidFileError(f"invalid .ptd file: cut off at {len(buffer)} of {base + size} bytes")
    tables = decode(buffer[: min(len(buffer), _INSERTED + tables_size)], _FlatTensor, ".ptd")
    buffers = []
    for index, segment in enumerate(tables.segments):
        if segment.offset + segment.size > size:
            raise InvalidFileError(f"invalid .ptd file: segment {index} lies outside the file")
        buffers.append(buffer[base + segment.offset : base + segment.offset + segment.size])
    entries = {}
    for entry in tables.named_data:
        if entry.segment_index >= len(buffers):
            raise InvalidFileError(f"invalid .ptd file: the data of {entry.key!r} are nowhere")
        _check_layout(entry.key, entry.tensor_layout, len(buffers[entry.segment_index]))
        entries[entry.key] = TensorEntry(entry.segment_index, entry.tensor_layout)
    return TensorData(tuple(buffers), entries)


def _check_layout(key: str, layout: TensorLayout | None, size: int) -> None:
    if layout is None:
        return
    nbytes = math.prod(layout.sizes) * ELEMENT_SIZE.get(layout.scalar_type, 0)
    rank = len(layout.sizes)
    sound = (
        layout.scalar_type in set(ScalarType)
        and rank <= MAX_RANK
        and all(dim >= 0 for dim in layout.sizes)
        and sorted(layout.dim_order) == list(range(rank))
        and nbytes == size
    )
    if not sound:
        raise InvalidFileError(f"invalid .ptd file: the shape or type of {key!r} does not fit its {size} bytes")
