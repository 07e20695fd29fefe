"""Writes .pte files: tables as a flatbuffer, segments streamed from where they are."""

from __future__ import annotations

import io
import os
from typing import BinaryIO, Protocol

from .check import check_program
from .container import SEGMENT_ALIGNMENT, align, destination, insert_header, stream
from .encode import encode
from .program import FILE_IDENTIFIER, HEADER, HEADER_MAGIC, ProgramFile


class HasProgramFile(Protocol):
    """What emission made: the program file and what is known beside it."""

    @property
    def program_file(self) -> ProgramFile: ...


def write_pte(program: ProgramFile | HasProgramFile, file: BinaryIO | os.PathLike[str] | str) -> None:
    """Write a program to a binary file or a path. The same program gives the same bytes.

    A path is replaced at once when all is written, or left as it was. Weights go from their
    memory (or their memory-mapped file) to the file without a copy.
    """
    program_file = program if isinstance(program, ProgramFile) else program.program_file
    check_program(program_file)
    with destination(file) as output:
        _write(program_file, output)


def pte_bytes(program: ProgramFile | HasProgramFile) -> bytes:
    """What write_pte writes."""
    buffer = io.BytesIO()
    write_pte(program, buffer)
    return buffer.getvalue()


def _write(program_file: ProgramFile, output: BinaryIO) -> None:
    flatbuffer = encode(program_file.program, FILE_IDENTIFIER)
    if not program_file.segments:
        output.write(flatbuffer.ljust(64, b"\0"))  # the loader reads 64 bytes before it looks further
        return
    program_size = len(flatbuffer) + HEADER.size
    segment_base = align(program_size, SEGMENT_ALIGNMENT)
    end = max(segment.offset + segment.size for segment in program_file.segments)
    header = HEADER.pack(HEADER_MAGIC, HEADER.size, program_size, segment_base, end)
    stream(output, insert_header(flatbuffer, header, HEADER.size), program_file.segments, segment_base)
