"""What is asked of a build, and what analysing it once left behind for the next time.

On the path of a build in which nothing changed, so it imports little: no dataclasses, no pathlib.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections import namedtuple

from ..loading import inputs as load_inputs
from .options import CommandLineError

# root: the workspace's folder; package: that of the folder from which it was asked ("" for the root);
# patterns, configs: as given; state: the builder's own folder; folder: what is kept of this request.
Request = namedtuple("Request", "root package patterns configs state folder")

# What analysis found. name: the workspace's; total: how many actions the targets need; targets: tuples of
# (label, paths of its outputs relative to the root, whether it is a test, whether it can be run).
Analysed = namedtuple("Analysed", "name total targets")

# The same answer from another version of this file would be misread.
_FORMAT = 1

_TOOLS = ("bash", "c++", "g++", "clang++", "ar", "llvm-ar")


def find_root(start: str) -> str | None:
    """The nearest folder at or above `start` that has a WORKSPACE file."""
    folder = os.path.abspath(start)
    while not os.path.isfile(os.path.join(folder, "WORKSPACE")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def require_root(start: str) -> str:
    """As find_root.

    Raises:
        CommandLineError: there is no workspace there.
    """
    root = find_root(start)
    if root is None:
        raise CommandLineError(
            f"error: {start} is in no workspace: neither it nor a folder above it has a file WORKSPACE\n"
            '  to fix: go into a workspace, name one with -C DIR, or make one: a file WORKSPACE with workspace(name = "…")'
        )
    return root


def make_request(root: str, start: str, patterns: list[str], configs: list[str]) -> Request:
    """The request for `patterns`, relative ones meant from the folder `start`."""
    relative = os.path.relpath(os.path.abspath(start), root)
    package = "" if relative == "." else relative.replace(os.sep, "/")
    state = os.path.join(root, "build-out", ".state")
    asked = json.dumps([package, patterns, configs]).encode("utf-8", "surrogatepass")
    # Requests whose names collide take turns: what is kept says for which request it is.
    name = f"{zlib.crc32(asked):08x}"
    return Request(root, package, tuple(patterns), tuple(configs), state, os.path.join(state, "requests", name))


def read_analysed(request: Request) -> Analysed | None:
    """What an earlier analysis of the same request found, if it would find the same now."""
    try:
        with open(os.path.join(request.folder, "request.json"), "rb") as file:
            data = json.loads(file.read())
        if data["identity"] != identity(request):
            return None
        if not load_inputs.unchanged(load_inputs.from_json(data["inputs"])):
            return None
        return Analysed(data["name"], data["total"], [tuple(target) for target in data["targets"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_analysed(request: Request, analysed: Analysed, inputs: load_inputs.LoadInputs, request_identity: list) -> None:
    """Keep what analysis found. Written last of all files in the request's folder, so that it vouches for them."""
    data = {
        "identity": request_identity,
        "inputs": inputs.to_json(),
        "name": analysed.name,
        "total": analysed.total,
        "targets": analysed.targets,
    }
    write_file(os.path.join(request.folder, "request.json"), json.dumps(data))


def write_file(path: str, text: str) -> None:
    """Write a file of the builder's own, all of it or nothing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.writing"
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(temporary, path)


def identity(request: Request) -> list:
    """What an analysis depends on besides what it loads: the request, this builder, and the tools of this machine."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = [_folder_identity(here), _folder_identity(os.path.join(os.path.dirname(here), "rules"))]
    packages = [[path, _status(path)] for path in sys.path if path.endswith("-packages")]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    tools = [[path, s] for tool in _TOOLS for folder in folders if (s := _status(path := os.path.join(folder, tool)))]
    asked = [list(request.patterns), list(request.configs), request.package, request.root]
    return [_FORMAT, asked, sys.version, sys.executable, code, packages, tools]


def _folder_identity(folder: str) -> list:
    found = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("__pycache__", ".")))
        found.extend([name, _status(os.path.join(path, name))] for name in sorted(files) if name.endswith((".py", ".bzl")))
    return found


def _status(path: str) -> list[int]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ino]
