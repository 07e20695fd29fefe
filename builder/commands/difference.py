"""Where two versions of an output differ first: by the file's structure if that is known, else by bytes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

_PIECE = 1 << 20


def describe_difference(first: Path, second: Path) -> str:
    """One or more lines about two files that are not equal."""
    position = first_differing_byte(first, second)
    sizes = f"{first.stat().st_size} and {second.stat().st_size} bytes"
    place = f"byte {position} is the first that differs ({sizes})"
    structure = _by_structure(first, second, position)
    return f"{place}\n{structure}" if structure else place


def first_differing_byte(first: Path, second: Path) -> int:
    """The position of the first byte that only one of two files has, or that differs; their size if there is none."""
    position = 0
    with open(first, "rb") as one, open(second, "rb") as other:
        while True:
            a, b = one.read(_PIECE), other.read(_PIECE)
            if a != b:
                return position + next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            if not a:
                return position
            position += len(a)


def _by_structure(first: Path, second: Path, position: int) -> str | None:
    with open(first, "rb") as file:
        beginning = file.read(16)
    try:
        if beginning[4:8] == b"ET12":
            return _in_programs(first, second)
        if beginning[:1] == b"{":
            return _in_data(json.loads(first.read_bytes()), json.loads(second.read_bytes()), "")
        if beginning[8:9] == b"{":
            return _in_tensors(first, position)
        return _in_text(first, second)
    except (OSError, ValueError, KeyError, struct.error):
        # One of them is not what it begins as.
        return None


def _in_programs(first: Path, second: Path) -> str | None:
    """What the engine says, in a process of its own."""
    command = [sys.executable, "-m", "rules_executorch.lowering", "difference", str(first), str(second)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    return completed.stdout.strip() or completed.stderr.strip() or None


def _in_data(first: Any, second: Any, path: str) -> str | None:
    """The first place at which two JSON documents differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys(chain(first, second)):
            if key not in first or key not in second:
                return f"{path}.{key} is in one of them only".lstrip(".")
            if found := _in_data(first[key], second[key], f"{path}.{key}"):
                return found
        if list(first) != list(second):
            return f"{path.lstrip('.') or 'the document'}: its keys are in another order"
        return None
    if isinstance(first, list) and isinstance(second, list):
        for index, (one, other) in enumerate(zip(first, second)):
            if found := _in_data(one, other, f"{path}[{index}]"):
                return found
        return None if len(first) == len(second) else f"{path.lstrip('.')}: {len(first)} and {len(second)} elements"
    return None if first == second else f"{path.lstrip('.')}: {_shown(first)} and {_shown(second)}"


def _in_tensors(file: Path, position: int) -> str:
    """Which tensor of a safetensors file the byte at `position` belongs to."""
    with open(file, "rb") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        header = json.loads(opened.read(length))
    for name, entry in header.items():
        begin, end = entry.get("data_offsets", (0, 0)) if isinstance(entry, dict) else (0, 0)
        if begin <= position - 8 - length < end:
            return f"tensor {name} ({entry['dtype']} {entry['shape']}), byte {position - 8 - length - begin} of it"
    return "in the header, which names the tensors"


def _in_text(first: Path, second: Path) -> str | None:
    """The first line of two texts that differs."""
    one, other = first.read_text(encoding="utf-8").splitlines(), second.read_text(encoding="utf-8").splitlines()
    for number, (a, b) in enumerate(zip(one, other), 1):
        if a != b:
            return f"line {number}: {_shown(a)} and {_shown(b)}"
    return f"{len(one)} and {len(other)} lines"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
