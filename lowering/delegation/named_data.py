"""Named data: bytes that delegates find by key at run time, stored once per program."""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class DataEntry:
    """One key's data: an index into the store's buffers, and its alignment in the file in bytes."""

    buffer_index: int
    alignment: int


@dataclass(frozen=True)
class NamedDataStoreOutput:
    """Buffers with the keys that name them.

    A buffer is bytes, or a contiguous CPU tensor whose bytes are meant (so that a memory-mapped
    weight goes from checkpoint to file without a copy). `pte_data` goes into the program;
    `external_data` maps a tag to what goes into `<tag>.ptd`.
    """

    buffers: tuple[bytes | torch.Tensor, ...] = ()
    pte_data: Mapping[str, DataEntry] = field(default_factory=dict)
    external_data: Mapping[str, Mapping[str, DataEntry]] = field(default_factory=dict)


class NamedDataStore:
    """Collects named data; equal bytes are kept once, whatever their keys.

    A class because a backend fills it while it walks a graph. Adding a key again with equal
    bytes is fine and keeps the stricter alignment.
    """

    def __init__(self) -> None:
        self._buffers: list[bytes | torch.Tensor] = []
        self._index_by_content: dict[tuple[int, bytes], int] = {}
        self._pte: dict[str, DataEntry] = {}
        self._external: dict[str, dict[str, DataEntry]] = {}

    def add_named_data(
        self, key: str, data: bytes | torch.Tensor, alignment: int = 1, external_tag: str | None = None
    ) -> None:
        """Store `data` under `key`, in the program, or in `<external_tag>.ptd`.

        Raises:
            ValueError: the key is taken by other bytes, or is both in the program and outside it.
        """
        if alignment < 1:
            raise ValueError(f"alignment must be positive, not {alignment}")
        self._insert(key, self._intern(data), alignment, external_tag)

    def add_by_content(
        self, data: bytes | torch.Tensor, alignment: int = 1, external_tag: str | None = None
    ) -> str:
        """Store `data` under the SHA-256 of its bytes, in hexadecimal, and return that key.

        So equal weights are stored once, whichever partitions, methods and backends use them.
        """
        size, content = content_key(data)
        key = content.hex()
        self._insert(key, self._index(data, (size, content)), alignment, external_tag)
        return key

    def merge_named_data_store(self, other: NamedDataStoreOutput) -> None:
        """Add all that another store holds. Raises ValueError as add_named_data does."""
        indices = [self._intern(buffer) for buffer in other.buffers]
        for key, entry in other.pte_data.items():
            self._insert(key, indices[entry.buffer_index], entry.alignment, None)
        for tag, entries in other.external_data.items():
            for key, entry in entries.items():
                self._insert(key, indices[entry.buffer_index], entry.alignment, tag)

    def output(self) -> NamedDataStoreOutput:
        """All that was added."""
        return NamedDataStoreOutput(
            tuple(self._buffers), dict(self._pte), {tag: dict(entries) for tag, entries in self._external.items()}
        )

    @property
    def contents(self) -> Sequence[tuple[int, bytes]]:
        """The content_key of each buffer, in order."""
        return list(self._index_by_content)

    get_named_data_store_output = output  # ExecuTorch's name for it

    def _intern(self, data: bytes | torch.Tensor) -> int:
        return self._index(data, content_key(data))

    def _index(self, data: bytes | torch.Tensor, content: tuple[int, bytes]) -> int:
        """The index of the buffer with these contents, a new one if need be."""
        index = self._index_by_content.setdefault(content, len(self._buffers))
        if index == len(self._buffers):
            self._buffers.append(data)
        return index

    def _insert(self, key: str, index: int, alignment: int, tag: str | None) -> None:
        homes = {None: self._pte, **self._external}
        for home, entries in homes.items():
            if key in entries and home != tag:
                places = f"both in {home or 'the program'} and in {tag or 'the program'}"
                raise ValueError(f"named data {key!r} is stored {places}")
        entries = self._pte if tag is None else self._external.setdefault(tag, {})
        known = entries.get(key)
        if known is not None and known.buffer_index != index:
            raise ValueError(f"named data {key!r} is given twice with different bytes")
        alignment = alignment if known is None else math.lcm(alignment, known.alignment)
        entries[key] = DataEntry(index, alignment)


def tensor_bytes(data: bytes | torch.Tensor) -> memoryview:
    """A view of the bytes, without a copy where `data` is a contiguous CPU tensor.

    The view keeps `data` alive. Raises ValueError for a tensor that is elsewhere or not dense.
    """
    if isinstance(data, (bytes, bytearray, memoryview)):
        return memoryview(data)
    tensor = data.detach()
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError(f"named data must be a contiguous CPU tensor, not {tensor.device} strides {tensor.stride()}")
    if tensor.numel() == 0:
        return memoryview(b"")
    size = tensor.numel() * tensor.element_size()
    view = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    view._keep_alive = tensor  # the array outlives no tensor: the memoryview holds the array
    return memoryview(view).cast("B")


def content_key(data: bytes | torch.Tensor) -> tuple[int, bytes]:
    """Size and SHA-256 of the bytes: equal exactly for equal contents."""
    view = tensor_bytes(data)
    return len(view), hashlib.sha256(view).digest()
