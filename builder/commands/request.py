"""What is asked of a build, and what analysing it once left behind for the next time.

On the path of a build in which nothing changed, so it imports little: no dataclasses, no pathlib.
"""

from __future__ import annotations

import json
import os
import sys
from collections import namedtuple
from zlib import crc32

from ..loading import inputs as load_inputs
from ..loading.root import find_root
from .unchanged import folder_of, identity_of, package_of, state_of
from .watch import INODE_BITS, source_status
from .words import CommandLineError

# root: the workspace's folder; package: that of the folder from which it was asked ("" for the root);
# patterns, configs: as given; sections: names of configs that need not be mentioned in BUILD files; state: the builder's own folder; folder: what is kept of this request.
Request = namedtuple("Request", "root package patterns configs state folder sections")

# What analysis found. name: the workspace's; total: how many actions the targets need; targets: tuples of
# (label, paths of its outputs relative to the root, whether it is a test, whether it can be run); read: files and
# folders that it depends on, with their statuses (see watch.source_status) as they were before they were read.
Analysed = namedtuple("Analysed", "name total targets read")

# The same answer from another version of this file would be misread.
_FORMAT = 6

_VOUCHED_FOR = ("actions.json", "build.ninja", "runs.json")

_TOOLS = ("bash", "c++", "g++", "clang++", "ar", "llvm-ar")


def require_root(start: str) -> str:
    """The nearest folder at or above `start` that has a WORKSPACE file.

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


def make_request(
    root: str, start: str, patterns: list[str], configs: list[str], sections: tuple[str, ...] = ()
) -> Request:
    """The request for `patterns`, relative ones meant from the folder `start`."""
    package = package_of(root, start)
    folder = folder_of(root, package, patterns, configs)
    return Request(root, package, tuple(patterns), tuple(configs), state_of(root), folder, sections)


def read_analysed(request: Request, *, trusted: bool = False) -> Analysed | None:
    """What an earlier analysis of the same request found, if it would find the same now and nothing of it is damaged.

    `trusted`: that it would find the same is known already.
    """
    try:
        with open(os.path.join(request.folder, "request.json"), "rb") as file:
            checksum, _, body = file.read().partition(b"\n")
        if int(checksum) != crc32(body):
            return None
        data = json.loads(body)
        if data["checksums"] != _checksums(request):
            return None
        inputs = load_inputs.from_json(data["inputs"])
        if not trusted and not (data["identity"] == identity(request) and load_inputs.unchanged(inputs)):
            return None
        targets = [tuple(target) for target in data["targets"]]
        return Analysed(data["name"], data["total"], targets, statuses_read(data["identity"], inputs))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def statuses_read(request_identity: list, inputs: load_inputs.LoadInputs) -> dict[str, tuple[int, ...]]:
    """All that analysis looked at, with the statuses that it had before."""
    statuses = {path: tuple(status) for path, status in request_identity[-1]}
    for path, (status, _) in (*inputs.files.items(), *inputs.folders.items()):
        size, modified, changed, inode = status or (0, 0, 0, 0)
        statuses[path] = (inode & INODE_BITS, size, modified, changed)
    return statuses


def write_analysed(request: Request, analysed: Analysed, inputs: load_inputs.LoadInputs, request_identity: list) -> None:
    """Keep what analysis found. Written last of all files in the request's folder, so that it vouches for them."""
    data = {
        "identity": request_identity,
        "inputs": inputs.to_json(),
        "name": analysed.name,
        "total": analysed.total,
        "targets": analysed.targets,
        "checksums": _checksums(request),
    }
    body = json.dumps(data)
    write_file(os.path.join(request.folder, "request.json"), f"{crc32(body.encode())}\n{body}")


def _checksums(request: Request) -> dict[str, int]:
    """Of the files beside request.json, for which it vouches."""
    found = {}
    for name in _VOUCHED_FOR:
        with open(os.path.join(request.folder, name), "rb") as file:
            found[name] = crc32(file.read())
    return found


def write_file(path: str, text: str) -> None:
    """Write a file of the builder's own, all of it or nothing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.writing"
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(temporary, path)


def identity(request: Request) -> list:
    """What an analysis depends on besides what it loads: the request, this builder, and the tools of this machine.

    Its last element is a list of files and folders with their statuses.
    """
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = [*_code_in(here), *_code_in(os.path.join(os.path.dirname(here), "rules"))]
    packages = [path for path in sys.path if path.endswith("-packages")]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # Those that are not there matter as well: they may come, before those that are.
    tools = [os.path.join(folder, tool) for tool in _TOOLS for folder in folders]
    statuses = [[path, list(source_status(path))] for path in (*code, *packages, *tools)]
    return [_FORMAT, identity_of(request.root, request.package, request.patterns, request.configs), statuses]


def _code_in(folder: str) -> list[str]:
    found = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(("__pycache__", ".")))
        found.extend(os.path.join(path, name) for name in sorted(files) if name.endswith((".py", ".bzl")))
    return found
