"""Contents for stores that tests make."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rules_executorch.builder.core.digest import Digest
from rules_executorch.builder.core.store import ContentStore


def put_bytes(store: ContentStore, data: bytes) -> Digest:
    """Store some bytes, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bytes")
        file.write_bytes(data)
        return store.put(file)
