"""What backends made of partitions before, found again by content.

    with caching(FolderCache(known, new)) as tally:
        to_backend(...)

Then a backend is asked only for partitions that differ from all before; `tally` counts both. A backend that
overrides preprocess_multimethod is always asked, since what it makes of one partition may depend on others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..files import replacing
from .backend import PreprocessResult
from .named_data import DataEntry, NamedDataStoreOutput, content_key, tensor_bytes
from .partition_key import Contents

_FORMAT = b"rules_executorch preprocessed 1\n"
_DIGEST_SIZE = hashlib.sha256().digest_size


class PreprocessCache(Protocol):
    """Bytes by key. What `get` returns is what `put` was given, or None."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, data: bytes) -> None: ...


@dataclass(frozen=True)
class FolderCache:
    """Reads from the folders `known` and `new`, writes to `new`. Every file is verified when it is read.

    Of what was found in `known` there is then an empty file in `new`, which tells its owner that it is in use.
    """

    known: Path
    new: Path

    def get(self, key: str) -> bytes | None:
        """What was kept under `key`; None where that is nothing, or is damaged."""
        for folder in (self.new, self.known):
            try:
                checked = (folder / key).read_bytes()
            except OSError:
                continue
            data = checked[_DIGEST_SIZE:]
            if hashlib.sha256(data).digest() == checked[:_DIGEST_SIZE]:
                if folder == self.known:
                    self._note_use(key)
                return data
        return None

    def put(self, key: str, data: bytes) -> None:
        """Keep `data`. A folder that cannot be written to keeps nothing."""
        try:
            self.new.mkdir(parents=True, exist_ok=True)
            with replacing(self.new / key) as temporary, open(temporary, "wb") as file:
                file.write(hashlib.sha256(data).digest())
                file.write(data)
        except OSError:
            pass

    def _note_use(self, key: str) -> None:
        with suppress(OSError):
            self.new.mkdir(parents=True, exist_ok=True)
            (self.new / key).touch()


@dataclass
class Tally:
    """How many partitions backends compiled, and how many results were known already."""

    cache: PreprocessCache
    preprocessed: int = 0
    cached: int = 0


_CURRENT: ContextVar[Tally | None] = ContextVar("preprocess_cache", default=None)


@contextmanager
def caching(cache: PreprocessCache) -> Iterator[Tally]:
    """Within it, to_backend looks for results in `cache`, and keeps new ones there."""
    tally = Tally(cache)
    token = _CURRENT.set(tally)
    try:
        yield tally
    finally:
        _CURRENT.reset(token)


def current_cache() -> Tally | None:
    """That of the innermost `caching`."""
    return _CURRENT.get()


def result_to_bytes(result: PreprocessResult, contents: Contents) -> bytes | None:
    """A result as bytes; None where its _delegate_info_meta is not JSON.

    Of a buffer that is one of the partition's own tensors (`contents`), only the name is written.
    """
    named = {content: name for name, content in contents.items()}
    data = result.data_store_output or NamedDataStoreOutput()
    pieces = [tensor_bytes(result.processed_bytes)]
    buffers: list[list[str | int]] = []
    for buffer in data.buffers:
        if (name := named.get(content_key(buffer))) is not None:
            buffers.append(["tensor", name])
        else:
            pieces.append(tensor_bytes(buffer))
            buffers.append(["bytes", len(pieces) - 1])
    try:
        head = json.dumps(
            {
                "sizes": [len(piece) for piece in pieces],
                "debug_handles": [[own, list(handles)] for own, handles in result.debug_handle_map.items()],
                "has_data": result.data_store_output is not None,
                "buffers": buffers,
                "pte": _entries_to_json(data.pte_data),
                "external": {tag: _entries_to_json(entries) for tag, entries in data.external_data.items()},
                "meta": result._delegate_info_meta,
            }
        ).encode()
        if json.loads(head)["meta"] != result._delegate_info_meta:
            return None
    except (TypeError, ValueError):
        return None
    return b"".join([_FORMAT, b"%d\n" % len(head), head, *pieces])


def result_from_bytes(data: bytes, tensors: dict[str, object]) -> PreprocessResult | None:
    """The inverse of result_to_bytes, with the partition's tensors by name; None for bytes of another format."""
    if not data.startswith(_FORMAT):
        return None
    size, _, rest = data[len(_FORMAT) :].partition(b"\n")
    head = json.loads(rest[: int(size)])
    pieces, at = [], int(size)
    for length in head["sizes"]:
        pieces.append(rest[at : at + length])
        at += length
    buffers = tuple(
        pieces[which] if kind == "bytes" else tensors[which].detach().contiguous() for kind, which in head["buffers"]
    )
    external = {tag: _entries_from_json(entries) for tag, entries in head["external"].items()}
    store = NamedDataStoreOutput(buffers, _entries_from_json(head["pte"]), external)
    return PreprocessResult(
        pieces[0],
        {own: tuple(handles) for own, handles in head["debug_handles"]},
        store if head["has_data"] else None,
        head["meta"],
    )


def _entries_to_json(entries) -> dict[str, list[int]]:
    return {key: [entry.buffer_index, entry.alignment] for key, entry in entries.items()}


def _entries_from_json(entries) -> dict[str, DataEntry]:
    return {key: DataEntry(*entry) for key, entry in entries.items()}
