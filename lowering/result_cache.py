"""What was made before on the way to a program, found again by content.

    with caching(FolderCache(known, new)) as tally:
        to_backend(...)

Then a backend is asked only for partitions that differ from all before; `tally` counts both. A backend that
overrides preprocess_multimethod is always asked, since what it makes of one partition may depend on others.
Edge programs are kept as well, of exported programs that `tally.origins` names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch.export import ExportedProgram

from .delegation.named_data import content_key
from .files import replacing
from .interchange.tensors import identity

_DIGEST_SIZE = hashlib.sha256().digest_size


class ResultCache(Protocol):
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
    """How many partitions backends compiled, and how many results were known already.

    `origins` are the exported programs that edge programs may be kept for, by id, each with the digest of what
    its edge program depends on besides its tensors and the code.
    """

    cache: ResultCache
    preprocessed: int = 0
    cached: int = 0
    origins: dict[int, tuple[ExportedProgram, str]] = field(default_factory=dict)
    _contents: dict[Hashable, tuple[torch.Tensor, tuple[int, bytes]]] = field(default_factory=dict)

    def contents(self, program: ExportedProgram) -> dict[str, tuple[int, bytes]]:
        """The content_key of each tensor of a program, by name.

        Raises AttributeError, RuntimeError, TypeError or ValueError for an object, or a tensor that has no bytes.
        """
        return {name: self._content(tensor) for name, tensor in {**program.state_dict, **program.constants}.items()}

    def _content(self, tensor: torch.Tensor) -> tuple[int, bytes]:
        """The tensor's content_key, made once however many programs share its memory, which is kept for that."""
        known = self._contents.get(identity(tensor))
        if known is None:
            known = self._contents[identity(tensor)] = tensor, content_key(tensor.detach().contiguous())
        return known[1]


_CURRENT: ContextVar[Tally | None] = ContextVar("result_cache", default=None)


@contextmanager
def caching(cache: ResultCache) -> Iterator[Tally]:
    """Within it, lowering looks for results in `cache`, and keeps new ones there."""
    tally = Tally(cache)
    token = _CURRENT.set(tally)
    try:
        yield tally
    finally:
        _CURRENT.reset(token)


def current_cache() -> Tally | None:
    """That of the innermost `caching`."""
    return _CURRENT.get()
