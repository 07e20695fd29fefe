"""Keeps the cache below a size: what was used least recently goes first, and nothing that a running build uses.

Results of actions, and what actions keep for later ones (`kept/`), carry their last use as their modification time;
contents go with the last result that names them. (Their own times stay as they are, since outputs in workspaces are
links to them.) A running build holds a lock on a file of its own in `running/`, whose modification time is when it
began: whatever was used or written since the oldest of them began stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .disk import contents_of, result_from_json

SIZE_VARIABLE = "RULES_EXECUTORCH_CACHE_SIZE"
_DEFAULT_SIZE = 50 << 30
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

# Evicting goes down to this part of the limit, so that it is not needed again at once.
_ENOUGH = 0.8
# So much may be written between two looks at how large the cache is, as a part of the limit.
_BETWEEN_LOOKS = 0.05
# File systems' clocks tick, and disagree a little with the machine's.
_SLACK_NS = 2_000_000_000


def size_limit() -> int:
    """The limit in bytes: 50 GiB, or what RULES_EXECUTORCH_CACHE_SIZE says, such as 20G. Raises ValueError."""
    text = os.environ.get(SIZE_VARIABLE, "").strip().upper().removesuffix("B").removesuffix("I")
    if not text:
        return _DEFAULT_SIZE
    unit = _UNITS.get(text[-1], 1)
    number = text[:-1] if text[-1] in _UNITS else text
    if not number.isdecimal():
        raise ValueError(f"{SIZE_VARIABLE} must be a size such as 20G, not {os.environ[SIZE_VARIABLE]!r}")
    return int(number) * unit


@contextlib.contextmanager
def in_use(root: Path) -> Iterator[None]:
    """While it lasts, nothing is evicted from the cache at `root` that is used meanwhile."""
    folder = root / "running"
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        os.close(handle)


def evict_if_needed(root: Path, limit: int, written: int) -> int:
    """Evict if the cache may be larger than `limit`, after `written` bytes were added; returns the bytes freed.

    Looking at the whole cache takes a while, so that it is done once in a while. An error of the disk's is no
    reason to fail: the next build tries again.
    """
    with contextlib.suppress(OSError):
        notes = root / "size.json"
        with open(root / "evicting", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known, unseen = _read_notes(notes)
            unseen += written
            freed = 0
            if known is None or known + unseen > limit or unseen > limit * _BETWEEN_LOOKS:
                freed, known, unseen = *evict(root, limit), 0
            _write_notes(notes, known, unseen)
            return freed
    return 0


def evict(root: Path, limit: int) -> tuple[int, int]:
    """Evict if the cache is larger than `limit` bytes; returns the bytes freed and those that are left."""
    oldest = _oldest_start(root / "running") - _SLACK_NS
    contents = {path.name: path.stat() for path in (root / "cas").glob("*/*")}
    used_at = [(path.stat(), path) for kind in ("ac", "kept") for path in (root / kind).glob("*/*")]
    total = sum(s.st_size for s in contents.values()) + sum(s.st_size for s, _ in used_at)
    _remove_leftovers(root / "tmp", oldest)
    if total <= limit:
        return 0, total
    room = int(limit * _ENOUGH)
    staying: set[str] = set()
    used = 0
    for found, path in sorted(used_at, key=lambda used: -used[0].st_mtime_ns):
        names = _hashes_named_by(path) & contents.keys() if path.parts[-3] == "ac" else set()
        size = found.st_size + sum(contents[name].st_size for name in names - staying)
        if used + size <= room or found.st_mtime_ns >= oldest:
            used += size
            staying |= names
        elif _still(path, found):
            # The result first: one whose contents are gone would only be a miss, but a surprising one.
            path.unlink(missing_ok=True)
    for name, found in contents.items():
        if name in staying:
            continue
        if found.st_ctime_ns >= oldest:  # just written: its result is not yet
            used += found.st_size
        else:
            (root / "cas" / name[:2] / name).unlink(missing_ok=True)
    return total - used, used


def _oldest_start(running: Path) -> int:
    """When the oldest running build began, in nanoseconds since the epoch; now, if there is none."""
    oldest = time.time_ns()
    for path in running.glob("*"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()  # its build was killed
            except BlockingIOError:
                oldest = min(oldest, path.stat().st_mtime_ns)
    return oldest


def _hashes_named_by(result: Path) -> set[str]:
    """The hashes of the contents that a result names; none where it is unreadable."""
    try:
        body = result.read_bytes().partition(b"\n")[2]
        return {digest.hash for digest in contents_of(result_from_json(json.loads(body)))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def _still(path: Path, found: os.stat_result) -> bool:
    """Whether nobody has used the result since it was looked at."""
    try:
        return path.stat().st_mtime_ns == found.st_mtime_ns
    except OSError:
        return False


def _remove_leftovers(temporary: Path, oldest: int) -> None:
    """Remove what builds that were killed were writing."""
    for path in temporary.glob("*"):
        with contextlib.suppress(OSError):
            if path.stat().st_ctime_ns < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _read_notes(notes: Path) -> tuple[int | None, int]:
    """How large the cache was when it was looked at, if it was, and how much was written since."""
    try:
        data = json.loads(notes.read_bytes())
        return int(data["known"]), int(data["unseen"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, 0


def _write_notes(notes: Path, known: int | None, unseen: int) -> None:
    temporary = notes.with_suffix(".writing")
    temporary.write_text(json.dumps({"known": known, "unseen": unseen}))
    os.replace(temporary, notes)
