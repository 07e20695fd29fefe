"""Answers a build in which nothing changed since it was last asked for, before anything else is imported.

Only command lines without options are answered here, where no .buildrc adds any; others take a few
milliseconds more.
"""

from __future__ import annotations

import os
import sys
import time
import zlib

from ..loading.root import find_root
from . import watch
from .words import CommandLineError, rc_files, split_words


def answer(arguments: list[str]) -> bool:
    """Print what `build` with these arguments would, if it would do nothing; whether it did."""
    started = time.monotonic()
    try:
        directory, verb, patterns = split_words(arguments)
    except CommandLineError:
        return False
    if verb not in (None, "build") or not patterns or any(word.startswith("-") for word in patterns):
        return False
    start = os.path.join(os.getcwd(), directory or "")
    root = find_root(start)
    if root is None or rc_files(root):
        return False
    package = package_of(root, start)
    watched = watch.read(folder_of(root, package, patterns, []))
    if watched is None or not watched.certain or watched.identity != identity_of(root, package, patterns, []):
        return False
    if watch.statuses_of(watched.sources, watched.outputs) != watched.statuses:
        return False
    sys.stdout.write(f"{watched.answer}{closing_line(watched.total, 0, 0, time.monotonic() - started)}\n")
    sys.stdout.flush()
    return True


def package_of(root: str, start: str) -> str:
    """The package of folder `start` in the workspace at `root`; "" for the root."""
    relative = os.path.relpath(os.path.abspath(start), root)
    return "" if relative == "." else relative.replace(os.sep, "/")


def state_of(root: str) -> str:
    """The builder's own folder in a workspace."""
    return os.path.join(root, "build-out", ".state")


def folder_of(root: str, package: str, patterns: list[str], configs: list[str]) -> str:
    """Where things are kept of the request for `patterns`, asked for in `package`.

    Requests whose names collide take turns: what is kept says for which request it is.
    """
    asked = repr((package, list(patterns), list(configs)))
    return os.path.join(state_of(root), "requests", f"{zlib.crc32(os.fsencode(asked)):08x}")


def identity_of(root: str, package: str, patterns: list[str], configs: list[str]) -> str:
    """What an answer depends on besides files: the request, the interpreter, and where tools are looked for."""
    asked = (root, package, list(patterns), list(configs))
    return repr((asked, sys.version, sys.executable, os.environ.get("PATH", os.defpath)))


def closing_line(total: int, ran: int, cached: int, seconds: float) -> str:
    """The last line of a build that succeeded."""
    actions = f"{total} action{'s' * (total != 1)}"
    return f"{actions}: {ran} ran, {cached} from the cache, {total - ran - cached} up to date ({seconds:.2f} s)"
