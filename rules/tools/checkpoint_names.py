"""Lists the tensors of a safetensors checkpoint, without their values.

Usage: checkpoint_names CHECKPOINT.safetensors OUT.json

Writes {name: {"dtype": …, "shape": […]}}, sorted by name: the same for every training of one model.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO


class CheckpointError(Exception):
    """A file that is no safetensors file: one line."""


def tensors(file: BinaryIO, size: int) -> dict[str, dict[str, Any]]:
    """The tensors that a checkpoint of `size` bytes says it holds: dtype and shape by name.

    Raises:
        CheckpointError: it is not a safetensors file.
    """
    # A little-endian length, then so many bytes of JSON, then the data.
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise CheckpointError("its header is longer than the file")
    try:
        header = json.loads(file.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {
            name: {"dtype": entries[name]["dtype"], "shape": entries[name]["shape"]} for name in sorted(entries)
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError("its header is not a list of tensors") from None


def main(checkpoint: str, out: str) -> int:
    """Write the list; exit status 1 and one line where the checkpoint is none."""
    with open(checkpoint, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            listed = tensors(file, size)
        except CheckpointError as error:
            print(f"error: {checkpoint} is not a safetensors file: {error}", file=sys.stderr)
            return 1
    with open(out, "w", encoding="utf-8") as file:
        file.write(json.dumps(listed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
