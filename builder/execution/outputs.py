"""Outputs in the workspace: whether they are what they should be, and how they get there."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..cache.disk import DiskStore, replace
from ..cache.file_digests import FileDigests
from ..cache.keys import InputFile
from ..core.store import ActionResult, OutputFile
from .layout import Layout

# Names of files on their way.
_NUMBERS = itertools.count()


def are_there(layout: Layout, digests: FileDigests, result: ActionResult) -> bool:
    """Whether every output is in its place, with the bytes and the mode that it should have."""
    return all(_is_there(layout, digests, path, output) for path, output in result.outputs.items())


def publish(layout: Layout, store: DiskStore, digests: FileDigests, result: ActionResult) -> bool:
    """Put all outputs in their places; False, and nothing moved, where the store turns out not to have one."""
    wanted = {path: out for path, out in result.outputs.items() if not _is_there(layout, digests, path, out)}
    if not wanted:
        return True
    staged: dict[str, Path] = {}
    try:
        for path, output in wanted.items():
            staged[path] = layout.staging / f"{os.getpid()}-{next(_NUMBERS)}"
            if not store.materialize(output.digest, staged[path], output.executable):
                return False
        for path, file in staged.items():
            destination = layout.output(path)
            clear_the_way(destination, layout.outputs)
            replace(file, destination)
    finally:
        for file in staged.values():
            file.unlink(missing_ok=True)
    return True


def link_trees_beside(program: Path, trees: Mapping[str, Path]) -> None:
    """Give a program in the workspace the toolchains' trees that it finds through `$ORIGIN`."""
    folder = program.with_name(f"{program.name}.runfiles") / ".toolchain"
    folder.mkdir(parents=True, exist_ok=True)
    for name, tree in trees.items():
        link = folder / name
        if not link.is_symlink() or os.readlink(link) != str(tree):
            link.unlink(missing_ok=True)
            link.symlink_to(tree)


def clear_the_way(destination: Path, top: Path) -> None:
    """Make the folder of a file below `top`, in place of what an earlier build may have had under these names."""
    if destination.is_dir() and not destination.is_symlink():
        shutil.rmtree(destination)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        for parent in destination.parents:
            if parent == top:
                break
            if parent.is_symlink() or parent.is_file():
                parent.unlink()
        destination.parent.mkdir(parents=True, exist_ok=True)


def _is_there(layout: Layout, digests: FileDigests, exec_path: str, output: OutputFile) -> bool:
    try:
        found = digests.file(layout.output(exec_path))
    except OSError:
        return False
    return found == InputFile(output.digest, output.executable)
