"""What actions keep for later ones: files in folders of the cache, one for each state of the code that makes them.

They only save time (see Action.keeps_for): who reads them verifies them, and nothing is missing without them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ..cache.keys import InputFile
from ..core.action import Action

# The name of the tree at which an action finds them, and of the folder of its home in which it leaves new ones.
KEPT = "kept"


def kept_folder(
    root: Path, action: Action, files: Mapping[str, InputFile], identities: Mapping[str, str]
) -> Path | None:
    """The folder below `root` of what `action` may find, made if need be; None if it keeps nothing.

    `files` are its inputs as they are, by exec_path; `identities` are its toolchains', by name.
    """
    if not action.keeps_for:
        return None
    state = hashlib.sha256()
    for artifact in action.keeps_for:
        state.update(f"{artifact.exec_path}\0{files[artifact.exec_path]}\0".encode("utf-8", "surrogateescape"))
    for name, identity in sorted(identities.items()):
        state.update(f"{name}\0{identity}\0".encode())
    folder = root / f"{action.mnemonic}-{state.hexdigest()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep(left: Path, kept: Path) -> None:
    """Move the files that an action left into the folder `kept`, each at once. A full disk keeps nothing.

    An empty one only says that the action has used what is kept under its name, which is what eviction goes by.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(left):
            path = left / name
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size:
                path.chmod(0o444)
                os.replace(path, kept / name)
            elif stat.S_ISREG(found.st_mode):
                with contextlib.suppress(FileNotFoundError):
                    os.utime(kept / name)
