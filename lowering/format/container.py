"""What a flatbuffer file with segments has around its tables: the inserted header, and the segments.

Both kinds of file, programs (.pte) and tensor data (.ptd), are built the same way: a finished
flatbuffer into which a header is inserted after byte 8, padding, then segments of raw data.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from ..files import replacing

SEGMENT_ALIGNMENT = 128
"""Where segments start, in bytes, unless their data ask for more."""

Data = bytes | memoryview


@dataclass(frozen=True)
class Segment:
    """Data that a file's tables refer to: `parts` at their offsets in it, and zeros between them.

    `offset` is from the first segment's start. The parts are in order and do not overlap. A segment that lies
    within an earlier one has the same bytes, which are in the file once.
    """

    offset: int
    size: int
    parts: tuple[tuple[int, Data], ...]


def align(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def insert_header(flatbuffer: bytes, header: bytes, padded_length: int) -> bytes:
    """A finished flatbuffer with `header`, padded, after its root offset and identifier."""
    root = struct.unpack_from("<I", flatbuffer)[0]
    padding = bytes(padded_length - len(header))
    return struct.pack("<I", root + padded_length) + flatbuffer[4:8] + header + padding + flatbuffer[8:]


def stream(file: BinaryIO, head: bytes, segments: Sequence[Segment], segment_base: int) -> None:
    """Write `head`, then each segment at its place, without copying any part."""
    file.write(head)
    position = len(head)
    for segment in segments:
        if segment_base + segment.offset < position >= segment_base + segment.offset + segment.size:
            continue  # it lies within what is written
        for offset, data in segment.parts:
            start = segment_base + segment.offset + offset
            if start < position:
                raise ValueError(f"segment data overlap at byte {start} of the file")
            file.write(bytes(start - position))
            file.write(data)
            position = start + len(data)
        end = segment_base + segment.offset + segment.size
        if end < position:
            raise ValueError(f"a segment's data reach beyond its end at byte {end} of the file")
        file.write(bytes(end - position))
        position = end


@contextlib.contextmanager
def destination(file: BinaryIO | os.PathLike[str] | str) -> Iterator[BinaryIO]:
    """A file to write to. A path gets the whole file at once when all is written, or nothing."""
    if not isinstance(file, (str, os.PathLike)):
        yield file
        return
    with replacing(file) as temporary, temporary.open("wb") as output:
        yield output
