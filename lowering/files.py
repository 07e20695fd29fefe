"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The name of a temporary file beside `path` to write to; it becomes `path` if the body succeeds.

    Raises OSError where the folder cannot be written to.
    """
    path = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent or ".")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; what we write is as readable as any new file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
