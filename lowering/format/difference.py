"""Where two programs differ: the first field of their tables, or the first bytes of their data."""

from __future__ import annotations

import dataclasses
from typing import Any

from .inspect import segment_contents
from .program import ProgramFile, segment_bytes

_PIECE = 1 << 16


def first_difference(first: ProgramFile, second: ProgramFile) -> str | None:
    """The first place at which two programs differ, and how; None if they mean the same.

    Tables come before segments. A place is a path of fields, such as `execution_plan[0].values[3].sizes[1]`.
    """
    return _in_tables(first.program, second.program, "") or _in_segments(first, second)


def _in_tables(first: Any, second: Any, path: str) -> str | None:
    if type(first) is not type(second):
        return f"{path or 'program'}: {_shown(first)} and {_shown(second)}"
    if dataclasses.is_dataclass(first):
        for field in dataclasses.fields(first):
            inner = f"{path}.{field.name}" if path else field.name
            if found := _in_tables(getattr(first, field.name), getattr(second, field.name), inner):
                return found
        return None
    if isinstance(first, (list, tuple)):
        for position, (one, other) in enumerate(zip(first, second)):
            if found := _in_tables(one, other, f"{path}[{position}]"):
                return found
        return None if len(first) == len(second) else f"{path}: {len(first)} and {len(second)} elements"
    if isinstance(first, (bytes, memoryview)):
        return _in_bytes(first, second, path)
    # NaN is what it is.
    return None if first == second or first != first else f"{path}: {_shown(first)} and {_shown(second)}"


def _in_segments(first: ProgramFile, second: ProgramFile) -> str | None:
    contents = segment_contents(first)
    for index, (one, other) in enumerate(zip(first.segments, second.segments)):
        if found := _in_bytes(segment_bytes(one), segment_bytes(other), f"segment {index} ({contents[index]})"):
            return found
    return None


def _in_bytes(first: bytes | memoryview, second: bytes | memoryview, path: str) -> str | None:
    if first == second:
        return None
    shorter = min(len(first), len(second))
    # Piece by piece: comparing single bytes takes long, and there may be gigabytes.
    starts = (at for at in range(0, shorter, _PIECE) if first[at : at + _PIECE] != second[at : at + _PIECE])
    start = next(starts, shorter)
    at = next((i for i in range(start, min(start + _PIECE, shorter)) if first[i] != second[i]), shorter)
    if at == shorter:
        return f"{path}: {len(first)} and {len(second)} bytes"
    return f"{path}: byte {at} is {first[at]:#04x} and {second[at]:#04x}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
