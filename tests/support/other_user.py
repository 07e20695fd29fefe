"""Runs commands as another user of this machine, where the tests are root's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

# Nobody's, on any machine: it has no name, no groups and no rights but everybody's.
UID = 54321

# In a mount namespace of its own: empty folders over those that others may not enter, and in these what is to be seen.
_SCRIPT = """
set -e
mount -t tmpfs none /mnt
closed=$1 uid=$2 number=0
shift 2
seen=$1
shift
for folder in $seen; do
  number=$((number + 1))
  mkdir "/mnt/$number"
  mount --rbind "$folder" "/mnt/$number"
done
for folder in $closed; do mount -t tmpfs -o mode=755 none "$folder"; done
number=0
for folder in $seen; do
  number=$((number + 1))
  mkdir -p "$folder"
  mount --rbind "/mnt/$number" "$folder"
done
cd "$PWD"
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all "$@"
"""


def as_other_user(command: Sequence[str], folders: Iterable[Path]) -> list[str]:
    """`command`, as the user UID runs it, who can enter `folders`, wherever they are. Their paths have no spaces."""
    seen = list(dict.fromkeys(folder.resolve() for folder in folders))
    closed = {closed for folder in seen if (closed := _closed(folder))}
    lists = [" ".join(map(str, closed)), str(UID), " ".join(map(str, seen if closed else []))]
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", _SCRIPT, "sh", *lists, *command]


def _closed(folder: Path) -> Path | None:
    """The outermost folder on the way that only its owner may enter."""
    ways = [*reversed(folder.parents), folder]
    return next((way for way in ways if not way.stat().st_mode & 0o001), None)


def give(folder: Path) -> None:
    """Make a folder, and all in it, the other user's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UID, UID, follow_symlinks=False)
