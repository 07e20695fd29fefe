"""Reads .pte files from anywhere: any defect is one clear error, however hostile the file."""

from __future__ import annotations

import mmap
import os
import struct

from ..errors import InvalidFileError
from .check import check_program
from .container import Segment
from .decode import decode
from .program import FILE_IDENTIFIER, HEADER, HEADER_MAGIC, ProgramFile
from .schema import Program

_SHORT_HEADER = 24  # a header without the last field, from before segments had a total size


def read_pte(source: bytes | memoryview | os.PathLike[str] | str) -> ProgramFile:
    """Read a program. A path is memory-mapped: segments are views of the file, not copies.

    Raises:
        InvalidFileError: this is not a sound .pte program; one line says why.
        OSError: the file cannot be opened.
    """
    buffer = source_view(source)
    if len(buffer) < 8 or buffer[4:8] != FILE_IDENTIFIER:
        found = bytes(buffer[4:8])
        raise InvalidFileError(f"invalid .pte file: its identifier is {found!r}, not {FILE_IDENTIFIER!r}")
    program_size, segment_base, segment_end = _extents(buffer)
    program = decode(buffer[:program_size], Program, ".pte")
    segments = []
    previous_end = 0
    for index, entry in enumerate(program.segments or ()):
        end = entry.offset + entry.size
        if entry.offset < previous_end < end or segment_base + end > segment_end:
            raise InvalidFileError(f"invalid .pte file: segment {index} overlaps another or lies outside the file")
        start = segment_base + entry.offset
        segments.append(Segment(entry.offset, entry.size, ((0, buffer[start : start + entry.size]),)))
        previous_end = max(previous_end, end)
    program_file = ProgramFile(program, tuple(segments))
    check_program(program_file)
    return program_file


def source_view(source: bytes | memoryview | os.PathLike[str] | str) -> memoryview:
    """The bytes of a file, memory-mapped, or of a buffer."""
    if not isinstance(source, (str, os.PathLike)):
        return memoryview(source).toreadonly().cast("B")
    with open(source, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _extents(buffer: memoryview) -> tuple[int, int, int]:
    """Where the tables end, where the segments start, and where they end."""
    if buffer[8:12] != HEADER_MAGIC:
        return len(buffer), 0, 0
    try:
        _, length, program_size, segment_base, segment_size = HEADER.unpack_from(buffer, 8)
    except struct.error:
        raise InvalidFileError("invalid .pte file: its header is cut off") from None
    if length < _SHORT_HEADER or not 8 + length <= program_size <= len(buffer):
        raise InvalidFileError(f"invalid .pte file: its header claims {program_size} bytes of tables")
    if segment_base and not program_size <= segment_base <= len(buffer):
        raise InvalidFileError(f"invalid .pte file: its segments start at {segment_base}, outside the file")
    end = segment_base + segment_size if length >= HEADER.size else len(buffer)
    if end > len(buffer):
        raise InvalidFileError(f"invalid .pte file: cut off at {len(buffer)} of {end} bytes")
    return program_size, segment_base, end
