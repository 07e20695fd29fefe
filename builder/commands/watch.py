"""Sees what ninja cannot: ninja compares times, and files change in other ways.

After a build the status of all that it looked at is kept: of the files that loading and the actions
read, and of the outputs. Where one differs at the next build (replaced by an older file, edited within
a tick of the clock, an output tampered with), the stamps of the actions that it belongs to are removed,
and ninja asks for these actions. Where none does, there is nothing to build, and what was kept answers.

On the path of a build in which nothing changed: it imports next to nothing, and what is kept is read as
one list of names and one array of numbers.
"""

from __future__ import annotations

import os
from array import array
from zlib import crc32

# The same bytes would mean something else to another version of this file.
_FORMAT = "2"

_SOURCE_NUMBERS, _OUTPUT_NUMBERS = 4, 3
_ABSENT = (0,) * _SOURCE_NUMBERS
# Some file systems number inodes with all 64 bits.
INODE_BITS = (1 << 63) - 1


class Watched:
    """What was kept after a build of one request.

    `identity` says for which request and builder; `certain`, whether there is nothing to build as long as
    nothing changes: the build succeeded, and no source was so new that it could change without its status
    showing it. `answer` is what such a build prints of its results, and `total` how many actions there are.
    `statuses` has four numbers for each path in `sources` and then three for each in `outputs`.
    """

    __slots__ = ("identity", "certain", "answer", "total", "sources", "outputs", "statuses")

    def __init__(
        self,
        identity: str,
        certain: bool,
        answer: str,
        total: int,
        sources: list[str],
        outputs: list[str],
        statuses: array[int],
    ):
        self.identity = identity
        self.certain = certain
        self.answer = answer
        self.total = total
        self.sources = sources
        self.outputs = outputs
        self.statuses = statuses


def path(folder: str) -> str:
    """Where the statuses of the request in `folder` are kept."""
    return os.path.join(folder, "watch")


def read(folder: str) -> Watched | None:
    """What is kept of the request in `folder`; None where that is nothing, or damaged."""
    try:
        with open(path(folder), "rb") as file:
            sizes, _, data = file.read().partition(b"\n")
        text, numbers, checksum = map(int, sizes.split())
        fields = os.fsdecode(data[:text]).split("\0")
        statuses = array("q", data[text:])
        version, identity, certain, answer, total, sources = fields[:6]
        paths, count = fields[6:], int(sources)
        whole = len(statuses) == numbers == _SOURCE_NUMBERS * count + _OUTPUT_NUMBERS * (len(paths) - count)
        if version != _FORMAT or not whole or checksum != crc32(data):
            return None
        return Watched(identity, certain == "1", answer, int(total), paths[:count], paths[count:], statuses)
    except (OSError, ValueError):
        return None


def write(folder: str, watched: Watched) -> None:
    """Keep `watched` for the request in `folder`, in place of what is there: all of it or nothing."""
    certain = str(int(watched.certain))
    head = [_FORMAT, watched.identity, certain, watched.answer, str(watched.total), str(len(watched.sources))]
    text = os.fsencode("\0".join([*head, *watched.sources, *watched.outputs]))
    temporary = f"{path(folder)}.writing"
    with open(temporary, "wb") as file:
        data = text + watched.statuses.tobytes()
        file.write(b"%d %d %d\n" % (len(text), len(watched.statuses), crc32(data)))
        file.write(data)
    os.replace(temporary, path(folder))


def statuses_of(sources: list[str], outputs: list[str]) -> array[int]:
    """The numbers of Watched.statuses, as they are now."""
    # This is most of the time of a build in which nothing changed: no call is made that can be done without.
    numbers = array("q")
    extend, stat = numbers.extend, os.stat
    for name in sources:
        try:
            found = stat(name)
        except OSError:
            extend(_ABSENT)
        else:
            extend((found.st_ino & INODE_BITS, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    for name in outputs:
        try:
            found = stat(name)
        except OSError:
            extend(_ABSENT[:_OUTPUT_NUMBERS])
        else:
            extend((found.st_ino & INODE_BITS, found.st_size, found.st_mtime_ns))
    return numbers


def source_status(name: str) -> tuple[int, int, int, int]:
    """All that stat tells of a change: inode, size, modification and change time; zeros for what is not there."""
    try:
        found = os.stat(name)
    except OSError:
        return _ABSENT
    return found.st_ino & INODE_BITS, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def changed_files(watched: Watched) -> tuple[list[str], dict[str, tuple[int, ...]]]:
    """The files that are not as the build left them, and the sources as they are now.

    An output's change time is not compared: other links to it change that.
    """
    now = statuses_of(watched.sources, watched.outputs)
    of_sources = dict(zip(watched.sources, _groups(now, _SOURCE_NUMBERS)))
    if now == watched.statuses:
        return [], of_sources
    outputs_at = _SOURCE_NUMBERS * len(watched.sources)
    pairs = [
        (watched.sources, _groups(watched.statuses, _SOURCE_NUMBERS), _groups(now, _SOURCE_NUMBERS)),
        (
            watched.outputs,
            _groups(watched.statuses[outputs_at:], _OUTPUT_NUMBERS),
            _groups(now[outputs_at:], _OUTPUT_NUMBERS),
        ),
    ]
    changed = [name for names, old, new in pairs for name, a, b in zip(names, old, new) if a != b]
    return changed, of_sources


def _groups(numbers: array[int], size: int):
    """The numbers in tuples of `size`."""
    return zip(*[iter(numbers)] * size)
