"""Digests: the SHA-256 and size of some bytes, as in the Remote Execution API."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Digest:
    """`hash` is 64 lower-case hex digits; `size` is in bytes."""

    hash: str
    size: int

    def __str__(self) -> str:
        return f"{self.hash}/{self.size}"


def digest_bytes(data: bytes) -> Digest:
    """The digest of `data`."""
    return Digest(hashlib.sha256(data).hexdigest(), len(data))


def digest_file(path: Path | str) -> Digest:
    """The digest of a file's content, read in pieces. Raises OSError as open() does."""
    state = hashlib.sha256()
    size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            state.update(piece)
            size += len(piece)
    return Digest(state.hexdigest(), size)
