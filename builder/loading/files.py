"""The only way in which loading looks at the disk, which remembers all that it saw."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from .inputs import LoadInputs, digest_content, digest_listing, list_folder, status_of
from .root import WORKSPACE_FILE

BUILD_FILE = "BUILD"


class Files:
    """Files and folders as they are during one load: each is looked at once. Paths are absolute."""

    def __init__(self) -> None:
        self._taken = time.time_ns()
        self._read: dict[str, tuple] = {}
        self._listed: dict[str, tuple] = {}
        self._contents: dict[str, bytes | None] = {}
        self._folders: dict[str, Mapping[str, bool] | None] = {}

    def read(self, path: str) -> bytes | None:
        """A file's content, or None where it cannot be read."""
        if path not in self._contents:
            # The status comes first: a change after it is seen, if only as one too many.
            status = status_of(path)
            try:
                # Opening anything but a file could wait forever.
                with open(path if os.path.isfile(path) else "", "rb") as file:
                    content = file.read()
            except OSError:
                content = None
            self._contents[path] = content
            self._read[path] = (status, "" if content is None else digest_content(content))
        return self._contents[path]

    def entries(self, folder: str) -> Mapping[str, bool] | None:
        """A folder's entries, and whether each is a folder; None where there is no such folder."""
        if folder not in self._folders:
            status = status_of(folder)
            listing = list_folder(folder)
            self._folders[folder] = listing
            self._listed[folder] = (status, digest_listing(listing))
        return self._folders[folder]

    def is_file(self, path: str) -> bool:
        """Whether there is a file (or anything that is no folder) at `path`."""
        folder, _, name = path.rpartition("/")
        entries = self.entries(folder)
        return entries is not None and entries.get(name) is False

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at `path`."""
        return self.entries(path) is not None

    def is_package(self, folder: str) -> bool:
        """Whether a folder has a BUILD file."""
        entries = self.entries(folder)
        return entries is not None and entries.get(BUILD_FILE) is False

    def is_workspace(self, folder: str) -> bool:
        """Whether a folder is a workspace of its own: wildcards stop there."""
        entries = self.entries(folder)
        return entries is not None and entries.get(WORKSPACE_FILE) is False

    def inputs(self) -> LoadInputs:
        """All that was looked at so far."""
        return LoadInputs(dict(self._read), dict(self._listed), self._taken)
