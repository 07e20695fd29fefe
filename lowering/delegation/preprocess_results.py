"""What backends made of partitions, as bytes, so that it can be kept (see result_cache.py)."""

from __future__ import annotations

import json

from .backend import PreprocessResult
from .named_data import DataEntry, NamedDataStoreOutput, content_key, tensor_bytes
from .partition_key import Contents

_FORMAT = b"rules_executorch preprocessed 1\n"


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
