"""Starts ninja and hears from it. Imports little, since a build in which nothing changed needs no more than this."""

from __future__ import annotations

import os
import signal
import sys
from collections import namedtuple

import _socket

from . import client

# Variables through which an edge reaches the build that started ninja (see client.py and ninja_file.py).
PYTHON_VARIABLE = "RULES_EXECUTORCH_PYTHON"
CLIENT_VARIABLE = "RULES_EXECUTORCH_CLIENT"
SOCKET_VARIABLE = client.SOCKET_VARIABLE

# A running ninja: its process id, a descriptor with what it prints, and the socket on which edges ask.
Ninja = namedtuple("Ninja", "pid output requests")

# Lines that ninja prints begin with this: edges finished so far, and edges to run in all.
STATUS = "%f/%t "


def start_ninja(root: str, build_file: str, *, jobs: int, keep_going: bool) -> Ninja:
    """Start ninja on `build_file` in folder `root`, in a process group of its own.

    Raises:
        FileNotFoundError: no ninja is installed.
    """
    requests, edges_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    reader, writer = os.pipe()
    os.set_inheritable(edges_end.fileno(), True)
    environment = {
        "PATH": "/usr/bin:/bin",
        "NINJA_STATUS": STATUS,
        PYTHON_VARIABLE: sys.executable,
        CLIENT_VARIABLE: client.__file__,
        SOCKET_VARIABLE: str(edges_end.fileno()),
    }
    arguments = ["ninja", "-C", root, "-f", build_file, "-j", str(jobs), "-k", "0" if keep_going else "1"]
    try:
        pid = os.posix_spawn(
            find_ninja(),
            arguments,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, writer, 1),
                (os.POSIX_SPAWN_DUP2, writer, 2),
            ],
            setpgroup=0,
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
        )
    finally:
        os.close(writer)
        edges_end.close()
    return Ninja(pid, reader, requests)


def find_ninja() -> str:
    """The ninja that the distribution `ninja` brings: the program itself, not a script that starts it."""
    beside = os.path.join(os.path.dirname(sys.executable), "ninja")
    if _is_program(beside):
        return beside
    import ninja

    inside = os.path.join(ninja.BIN_DIR, "ninja")
    if _is_program(inside):
        return inside
    raise FileNotFoundError("ninja is not installed: pip install ninja")


def _is_program(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(2) != b"#!"
    except OSError:
        return False


def has_nothing_to_do(ninja: Ninja) -> bool:
    """Wait until ninja ends or an edge asks for something; whether it ended, and found no fault."""
    import select

    while True:
        ready, _, _ = select.select([ninja.output, ninja.requests], [], [])
        if ninja.requests in ready:
            return False
        if not os.read(ninja.output, 1 << 16):
            return reap(ninja) == 0


def reap(ninja: Ninja) -> int:
    """Wait for ninja's end; its exit status."""
    os.close(ninja.output)
    ninja.requests.close()
    _, status = os.waitpid(ninja.pid, 0)
    return os.waitstatus_to_exitcode(status)


def stop(ninja: Ninja) -> None:
    """End ninja and its edges, if it has not ended yet."""
    if ninja.requests.fileno() == -1:
        return
    try:
        os.killpg(ninja.pid, signal.SIGINT)
    except ProcessLookupError:
        pass
    reap(ninja)
