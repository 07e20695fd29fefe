"""Which files of this machine the toolchain `python` consists of: the interpreter, and distributions with what they need.

An action that imports anything else of site-packages does not find it, or is told to declare it.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import importlib.metadata

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def normal_name(name: str) -> str:
    """A distribution's name in the form in which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.lru_cache(maxsize=64)
def closure(names: tuple[str, ...]) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions among `names` and all that they require, by normal name.

    Requirements of extras do not count. Those that depend on the platform do, where they are installed:
    that is what the condition would have said.
    """
    import importlib.metadata  # Loads much, and most builds remember what it says.

    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    missing = set()
    while waiting:
        name = normal_name(waiting.pop())
        if name in found or name in missing:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            missing.add(name)
            continue
        waiting.extend(_required(_requirements(found[name])))
    return found


def _requirements(distribution: importlib.metadata.Distribution) -> list[str]:
    """As `distribution.requires`, which reads the whole description, a mail's body, as well."""
    header = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    return re.findall(r"^Requires-Dist: (.*)", header, re.MULTILINE)


def _required(requirements: Iterable[str]) -> Iterator[str]:
    for requirement in requirements:
        text, _, condition = requirement.partition(";")
        name = _NAME.match(text.strip())
        if name and "extra" not in condition:
            yield name.group()


@functools.lru_cache(maxsize=64)
def distribution_paths(names: tuple[str, ...]) -> tuple[str, ...]:
    """What is installed of `names` and all that they require: entries of site-packages, and programs; absolute.

    With an entry that is a link comes what it leads to, as where one environment borrows from another.
    """
    paths: dict[str, None] = {}
    for distribution in closure(names).values():
        place = os.path.abspath(os.fspath(distribution.locate_file("")))
        lines = (distribution.read_text("RECORD") or "").splitlines()
        for entry in {_entry(line.partition(",")[0]) for line in lines} - {""}:
            path = os.path.normpath(os.path.join(place, entry))
            paths[path] = None
            if os.path.islink(path):
                paths[os.path.realpath(path)] = None
    return tuple(sorted(paths))


def _entry(path: str) -> str:
    """The entry of site-packages that a distribution's file is in; in a folder that others share, the file itself."""
    first = path.partition("/")[0]
    return path if first in ("__pycache__", "..") else first


def installed(folders: Iterable[str]) -> list[tuple[str, int, int]]:
    """What tells that the distributions in these folders are the same as before: each one's entry, and its status."""
    found = []
    for folder in dict.fromkeys(folders):
        try:
            entries = [entry for entry in os.scandir(folder) if entry.name.endswith(".dist-info")]
            found += [(entry.path, entry.stat().st_mtime_ns, entry.stat().st_ino) for entry in entries]
        except OSError:  # Not every entry of sys.path is a folder.
            continue
    return sorted(found)


@functools.cache
def interpreter_paths() -> tuple[str, ...]:
    """The interpreter that runs this: its installation, and of a virtual environment what makes it one."""
    paths = [os.path.realpath(sys.base_prefix), sys.base_prefix]
    program = sys.executable
    # Where it would be; sys.prefix does not say so in an interpreter that was started without `site`.
    paths.append(os.path.join(os.path.dirname(os.path.dirname(program)), "pyvenv.cfg"))
    # Every link on the way to the program, since it finds its library by them.
    while os.path.islink(program):
        paths.append(program)
        program = os.path.join(os.path.dirname(program), os.readlink(program))
    paths.append(os.path.normpath(program))
    return tuple(dict.fromkeys(paths))


@functools.cache
def site_folders() -> tuple[str, ...]:
    """All folders of this machine's that hold distributions of some Python which actions could come upon."""
    prefixes = dict.fromkeys((sys.prefix, os.path.realpath(sys.base_prefix), "/usr", "/usr/local"))
    found = [
        folder
        for prefix in prefixes
        for pattern in ("site-packages", "dist-packages")
        for folder in glob.glob(os.path.join(glob.escape(prefix), "lib*", "python3*", pattern))
    ]
    return tuple(dict.fromkeys(folder for folder in found if not os.path.islink(folder)))
