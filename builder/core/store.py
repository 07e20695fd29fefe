"""What a store of contents and of action results must offer. Disk and remote stores implement it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .digest import Digest


@dataclass(frozen=True)
class OutputFile:
    """One output of an action that succeeded."""

    digest: Digest
    executable: bool = False


@dataclass(frozen=True)
class ActionResult:
    """What a successful action left: its outputs by exec_path, and what it printed.

    `hermetic`: walls kept it to what it declares. Only such a result may be given to other machines.
    """

    outputs: Mapping[str, OutputFile]
    stdout: Digest | None = None
    stderr: Digest | None = None
    hermetic: bool = True


class ContentStore(Protocol):
    """Immutable bytes by digest."""

    def contains(self, digest: Digest) -> bool:
        """Whether the bytes are there (their integrity is checked when they are read)."""

    def put(self, path: Path) -> Digest:
        """Store a file's bytes; atomic, and safe against the same put elsewhere."""

    def materialize(self, digest: Digest, destination: Path, executable: bool) -> bool:
        """Lay verified bytes at `destination`, atomically; False (and evicted) if absent or corrupt."""


class ActionCache(Protocol):
    """Results of successful actions by action key."""

    def get(self, key: str) -> ActionResult | None:
        """The result, or None. An unreadable entry is None."""

    def put(self, key: str, result: ActionResult) -> None:
        """Record a result whose outputs are all in the content store already."""
