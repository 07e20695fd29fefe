"""The content store and the action cache as folders on disk, shared by every build of a user.

Layout: `cas/<2 hex digits>/<hash>` holds contents, `ac/<2 hex digits>/<key>` results, `tmp/` what is
being written. Files are written beside and renamed, so a reader sees all of one or none, whoever is
killed when. Everything is verified when it is read, so neither a torn write after a power cut nor a
flipped bit is ever used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..core.digest import Digest, digest_bytes, digest_file
from ..core.store import ActionResult, OutputFile

_PIECE = 1 << 20


class DiskStore:
    """A ContentStore below `root`. Safe to use from several threads and processes at once.

    `written` is about how many bytes were added to it.
    """

    def __init__(self, root: Path):
        self.written = 0
        self._contents = root / "cas"
        self._temporary = root / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)

    def path_of(self, digest: Digest) -> Path:
        """Where the bytes of `digest` are, if they are there."""
        return self._contents / digest.hash[:2] / digest.hash

    def contains(self, digest: Digest) -> bool:
        """Whether the bytes are there (their integrity is checked when they are read)."""
        try:
            return os.stat(self.path_of(digest)).st_size == digest.size
        except OSError:
            return False

    def put(self, path: Path) -> Digest:
        """Store a file's bytes. An entry that is there already is replaced if it turns out corrupt."""
        with _temporary_file(self._temporary) as temporary:
            digest = _copy(path, temporary)
            self._adopt(temporary, digest)
        return digest

    def read(self, digest: Digest) -> bytes | None:
        """The verified bytes, or None (and evicted) if absent or corrupt."""
        try:
            data = self.path_of(digest).read_bytes()
        except OSError:
            return None
        if digest_bytes(data) != digest:
            self._evict(digest)
            return None
        return data

    def materialize(self, digest: Digest, destination: Path, executable: bool) -> bool:
        """Lay verified bytes at `destination`, read-only and atomically.

        A plain file is a hard link into the store where the file system allows it; an executable
        is a copy, since one inode cannot have two modes. False (and evicted) if absent or corrupt.
        """
        blob = self.path_of(digest)
        with _temporary_file(destination.parent) as temporary:
            if not executable and self._link(blob, temporary):
                found = _digest_or_none(temporary)
            else:
                found = _copy_or_none(blob, temporary)
                if found is not None:
                    os.chmod(temporary, 0o555 if executable else 0o444)
            if found != digest:
                if found is not None:
                    self._evict(digest)
                return False
            replace(temporary, destination)
        return True

    def _adopt(self, temporary: Path, digest: Digest) -> None:
        blob = self.path_of(digest)
        if _digest_or_none(blob) == digest:
            # Keeping the old inode keeps the outputs that are linked to it shared. That it is wanted shows in its
            # change time (see eviction.py).
            with contextlib.suppress(OSError):
                os.chmod(blob, 0o444)
                return
        os.chmod(temporary, 0o444)
        self.written += digest.size
        blob.parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary, blob)

    def _evict(self, digest: Digest) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path_of(digest))

    @staticmethod
    def _link(blob: Path, temporary: Path) -> bool:
        """Hard-link instead of the empty temporary file; False where that cannot be done."""
        try:
            os.unlink(temporary)
            os.link(blob, temporary)
        except OSError as error:
            # Another file system, or one without links, or one with too many to this file: copy.
            if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOENT, errno.EACCES):
                return False
            raise
        return True


class DiskActionCache:
    """An ActionCache below `root`: one JSON file per key, its checksum on the first line."""

    def __init__(self, root: Path, store: DiskStore):
        self._results = root / "ac"
        self._temporary = root / "tmp"
        self._store = store
        self._temporary.mkdir(parents=True, exist_ok=True)

    def path_of(self, key: str) -> Path:
        """Where the result of `key` is, if it is there."""
        return self._results / key[:2] / key

    def get(self, key: str) -> ActionResult | None:
        """The result, if it is readable and all its contents are in the store."""
        try:
            checksum, _, body = self.path_of(key).read_bytes().partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(body).hexdigest().encode() != checksum:
            with contextlib.suppress(OSError):
                os.unlink(self.path_of(key))
            return None
        result = result_from_json(json.loads(body))
        if not all(map(self._store.contains, contents_of(result))):
            return None
        with contextlib.suppress(OSError):  # its last use (see eviction.py)
            os.utime(self.path_of(key))
        return result

    def put(self, key: str, result: ActionResult) -> None:
        """Record a result whose outputs are all in the content store already."""
        body = json.dumps(result_to_json(result), sort_keys=True, separators=(",", ":")).encode()
        path = self.path_of(key)
        with _temporary_file(self._temporary) as temporary:
            temporary.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, path)


def result_to_json(result: ActionResult) -> dict:
    """A result as plain data."""
    return {
        "outputs": {p: [str(o.digest), o.executable] for p, o in result.outputs.items()},
        "stdout": str(result.stdout) if result.stdout else None,
        "stderr": str(result.stderr) if result.stderr else None,
        "hermetic": result.hermetic,
    }


def result_from_json(data: dict) -> ActionResult:
    """The inverse of result_to_json."""
    return ActionResult(
        {p: OutputFile(_digest(text), bool(executable)) for p, (text, executable) in data["outputs"].items()},
        _digest(data["stdout"]) if data["stdout"] else None,
        _digest(data["stderr"]) if data["stderr"] else None,
        bool(data["hermetic"]),
    )


def _digest(text: str) -> Digest:
    hash_, _, size = text.partition("/")
    return Digest(hash_, int(size))


def contents_of(result: ActionResult) -> list[Digest]:
    """All contents that a result names."""
    digests = [output.digest for output in result.outputs.values()]
    return digests + [d for d in (result.stdout, result.stderr) if d is not None]


@contextlib.contextmanager
def _temporary_file(folder: Path) -> Iterator[Path]:
    """A new empty file in `folder`, gone at the end unless it was renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".writing-", dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def replace(temporary: Path, destination: Path) -> None:
    """os.replace, also where both are links to one inode already (there rename does nothing)."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samefile(temporary, destination):
            return
    os.replace(temporary, destination)


def _copy(source: Path, destination: Path) -> Digest:
    """Copy a file's bytes and make them durable; returns what was written."""
    state, size = hashlib.sha256(), 0
    with open(source, "rb", buffering=0) as reader, open(destination, "wb") as writer:
        while piece := reader.read(_PIECE):
            state.update(piece)
            writer.write(piece)
            size += len(piece)
        writer.flush()
        os.fsync(writer.fileno())
    return Digest(state.hexdigest(), size)


def _copy_or_none(source: Path, destination: Path) -> Digest | None:
    try:
        return _copy(source, destination)
    except FileNotFoundError:
        return None


def _digest_or_none(path: Path) -> Digest | None:
    try:
        return digest_file(path)
    except OSError:
        return None
