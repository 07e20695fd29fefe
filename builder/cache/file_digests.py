"""Digests of files, remembered by what stat says of them, so that gigabytes of weights are hashed once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

from ..core.digest import Digest, digest_file
from ..core.settled import settled
from .keys import InputFile

_Stamp = tuple[int, int, int, int, int]


class FileDigests:
    """Digests by (path, device, inode, size, mtime, ctime), kept in a database between builds.

    A file that was modified within the clock's granularity of being hashed is not remembered:
    it could change again without stat showing it. The database is a cache: an unreadable one is
    begun anew. Safe to use from several threads; several processes may share the file.
    """

    def __init__(self, database: Path):
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Stamp, Digest]] = {}
        self._new: dict[str, tuple[_Stamp, Digest]] = {}
        self._connection = _open(database)

    def file(self, path: Path | str) -> InputFile:
        """A file's digest and whether it is executable. Raises OSError where it cannot be read."""
        path = os.fspath(path)
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(f"{path} is not a regular file")
        executable = bool(before.st_mode & 0o100)
        known = self._remembered(path)
        if known and known[0] == _stamp(before):
            return InputFile(known[1], executable)
        now = time.time_ns()
        digest = digest_file(path)
        if settled(before.st_mtime_ns, before.st_ctime_ns, now) and _stamp(os.stat(path)) == _stamp(before):
            with self._lock:
                self._known[path] = self._new[path] = (_stamp(before), digest)
        return InputFile(digest, executable)

    def save(self) -> None:
        """Write what is new. Losing it costs time only, so an error is no error."""
        with self._lock, contextlib.suppress(sqlite3.Error, OverflowError):
            rows = [(path, *stamp, digest.hash) for path, (stamp, digest) in self._new.items()]
            self._new.clear()
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?)", rows)

    def close(self) -> None:
        """Save, and let go of the database."""
        self.save()
        self._connection.close()

    def _remembered(self, path: str) -> tuple[_Stamp, Digest] | None:
        with self._lock:
            if path not in self._known:
                with contextlib.suppress(sqlite3.Error):
                    row = self._connection.execute("SELECT * FROM files WHERE path = ?", (path,)).fetchone()
                    if row:
                        self._known[path] = (tuple(row[1:6]), Digest(row[6], row[3]))
            return self._known.get(path)


def _open(database: Path) -> sqlite3.Connection:
    """The database; a new one where there is none or where it cannot be read; else one in memory."""
    for attempt in (database, database, ":memory:"):
        try:
            if attempt is database:
                database.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(attempt, timeout=5, check_same_thread=False)
            connection.execute(
                "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, device INTEGER, inode INTEGER,"
                " size INTEGER, mtime INTEGER, ctime INTEGER, hash TEXT) WITHOUT ROWID"
            )
            return connection
        except (OSError, sqlite3.DatabaseError):
            with contextlib.suppress(OSError):
                database.unlink()
    raise AssertionError("sqlite3 has no databases in memory")


def _stamp(s: os.stat_result) -> _Stamp:
    return (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
