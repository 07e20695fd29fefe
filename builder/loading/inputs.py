"""What loading looked at, and whether all of it is still as it was.

On the path of a build in which nothing changed: it imports next to nothing, and asks for the
status of each file and folder once. Hence plain tuples and dicts rather than dataclasses.
"""

from __future__ import annotations

import os

# Status of a file or folder: size, modification and change time in nanoseconds, inode. For what
# was absent: nothing.
Status = tuple

# A file that was changed this little before it was read may have been changed again within the
# same tick of the file system's clock: its status proves nothing. FAT has the coarsest clock.
_CLOCK_GRANULARITY = 2_000_000_000

# Caches and checkouts come and go beside the sources, and no target names what is in them.
_OUTPUT_FOLDERS = frozenset(("__pycache__", "build-out"))


class LoadInputs:
    """Everything that loading read: files and folders by absolute path.

    `files` maps to (status, SHA-256 of the content); `folders` to (status, SHA-256 of the listing).
    Absence counts as content. `taken` is when loading began, in nanoseconds since the epoch.
    """

    __slots__ = ("files", "folders", "taken")

    def __init__(self, files: dict[str, tuple], folders: dict[str, tuple], taken: int):
        self.files = files
        self.folders = folders
        self.taken = taken

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoadInputs) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"LoadInputs({len(self.files)} files, {len(self.folders)} folders)"

    def to_json(self) -> dict:
        """Plain data that json can write, and `from_json` read."""

        def plain(entries: dict[str, tuple]) -> dict:
            return {path: [list(status), digest] for path, (status, digest) in entries.items()}

        return {"files": plain(self.files), "folders": plain(self.folders), "taken": self.taken}


def from_json(data: dict) -> LoadInputs:
    """What `to_json` made. Raises KeyError, TypeError or ValueError for anything else."""

    def entries(group: dict) -> dict[str, tuple]:
        return {path: (tuple(status), digest) for path, (status, digest) in group.items()}

    return LoadInputs(entries(data["files"]), entries(data["folders"]), int(data["taken"]))


def unchanged(inputs: LoadInputs) -> bool:
    """Whether loading would see again what it saw: then its result is the same, too."""
    for path, (status, digest) in inputs.files.items():
        if not _certain(status_of(path), status, inputs.taken) and digest_file(path) != digest:
            return False
    for path, (status, digest) in inputs.folders.items():
        if not _certain(status_of(path), status, inputs.taken) and digest_listing(list_folder(path)) != digest:
            return False
    return True


def _certain(now: Status, then: Status, taken: int) -> bool:
    """Whether two statuses prove that nothing changed in between."""
    return now == then and (not then or max(then[1], then[2]) + _CLOCK_GRANULARITY < taken)


def status_of(path: str) -> Status:
    """The status of a file or folder, links followed."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def list_folder(path: str) -> dict[str, bool] | None:
    """The entries of a folder and whether each is a folder, by name; None where there is no folder.

    Left out are hidden folders and those that builds write to (sources are elsewhere), links to
    folders on the way here (they lead round in circles), and names that are not UTF-8.
    """
    entries: dict[str, bool] = {}
    try:
        with os.scandir(path) as found:
            for entry in found:
                is_folder = _is_folder(entry)
                if is_folder and (_is_ignored(entry.name) or (entry.is_symlink() and _leads_back(entry.path))):
                    continue
                if entry.name.isascii() or _is_text(entry.name):
                    entries[entry.name] = is_folder
    except OSError:
        return None
    return dict(sorted(entries.items()))


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link that leads nowhere.
        return False


def _leads_back(path: str) -> bool:
    """Whether a link to a folder leads to one that the path to the link goes through."""
    target = os.path.realpath(path)
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        if os.path.realpath(folder) == target:
            return True
        folder = os.path.dirname(folder)
    return target == folder


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in _OUTPUT_FOLDERS


def digest_file(path: str) -> str:
    """SHA-256 of a file's content; of nothing at all where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return digest_content(file.read())
    except OSError:
        return ""


def digest_content(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    # Where nothing changed it is not needed, and it takes as long to import as all else here.
    import hashlib

    return hashlib.sha256(content).hexdigest()


def digest_listing(entries: dict[str, bool] | None) -> str:
    """SHA-256 of the result of `list_folder`."""
    if entries is None:
        return ""
    lines = (name + ("/\0" if is_folder else "\0") for name, is_folder in entries.items())
    return digest_content("".join(lines).encode("utf-8", "surrogateescape"))
