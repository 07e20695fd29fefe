"""What an action left in its execution root besides what it declared, and where its outputs really are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .namespaces import ROOT

# When every copy of an input was last modified, in seconds: 1980-01-01, the earliest time that a zip file can hold.
COPIED_AT = 315532800

# No chain of links that means anything is longer.
_MOST_LINKS = 40


@dataclass(frozen=True)
class Leftovers:
    """Paths relative to the execution root: inputs that were written to or removed, files that nobody declared."""

    changed: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()


def leftovers(
    root: Path, files: Mapping[str, Path], outputs: tuple[str, ...], visible: Iterable[str] = (), *, copied: bool
) -> Leftovers:
    """What is in `root` after an action with these inputs (by exec_path) and outputs.

    Of what is `visible` to it elsewhere, some stands in its execution root if the build is itself an action.

    `copied` says whether the inputs there are copies or links, rather than places at which they were mounted.
    What is below a folder at the top whose name begins with a dot counts as nothing: no file of a build is
    there, since names of repositories begin with a letter.
    """
    found = dict(_walk(os.fspath(root), ""))
    changed = [path for path in files if path not in found or (copied and found[path] not in (None, COPIED_AT))]
    shown = {path.removeprefix(f"{ROOT}/") for path in visible}
    undeclared = found.keys() - files.keys() - set(outputs) - shown
    return Leftovers(tuple(sorted(changed)), tuple(sorted(path for path in undeclared if not path.startswith("."))))


def refused(folder: Path) -> Iterator[tuple[str, Path]]:
    """What the action in the sandbox `folder` opened and was not allowed to: (the program, the path), each once."""
    try:
        lines = (folder / "undeclared").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in dict.fromkeys(lines):
        program, _, path = line.partition("\t")
        yield program, Path(path)


def find_output(root: Path, exec_path: str, files: Mapping[str, Path]) -> Path | None:
    """The regular file that an action made as its output; None if it is none, or a link that leads out of `root`.

    A link to one of the inputs (`files`, by exec_path) is that input.
    """
    path = exec_path
    for _ in range(_MOST_LINKS):
        if path in files:
            return files[path]
        link = _first_link(root, path)
        if link is None:
            return root / path if (root / path).is_file() else None
        path = os.path.normpath(os.path.join(_target(root, link), os.path.relpath(path, link)))
        if path.startswith(("..", "/")):
            return None
    return None


def _target(root: Path, link: str) -> str:
    """Where a link leads, relative to the execution root; an absolute path if to somewhere else."""
    target = os.readlink(root / link)
    for top in (ROOT, os.fspath(root)):
        if target.startswith(f"{top}/"):
            return os.path.relpath(target, top)
    return os.path.join(os.path.dirname(link), target)


def _first_link(root: Path, path: str) -> str | None:
    """The shortest beginning of `path` that is a symbolic link."""
    parts = path.split("/")
    beginnings = ("/".join(parts[: length + 1]) for length in range(len(parts)))
    return next((beginning for beginning in beginnings if (root / beginning).is_symlink()), None)


def _walk(top: str, folder: str) -> Iterator[tuple[str, int | None]]:
    """All that is no folder below `top`, relative to it, with the time of modification; None for links."""
    with os.scandir(os.path.join(top, folder)) as entries:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(top, path)
            else:
                yield path, None if entry.is_symlink() else int(entry.stat().st_mtime)
