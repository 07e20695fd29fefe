"""Checks what an action opens and executes, where no wall keeps it from the rest of the machine.

The kernel asks before each such call (seccomp's notifications); what is not declared is refused and
written down. A program that changes a path in the instant between answer and call gets by: this
finds mistakes, and holds no malice off.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import errno
import fcntl
import os
import re
import select
import struct

from . import namespaces, seccomp

# struct seccomp_notif (id, pid, flags, data) and seccomp_notif_resp, and the requests that carry them.
_QUESTION = struct.Struct("=QII" + "iIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_RECEIVE = 3 << 30 | _QUESTION.size << 16 | 0x21 << 8 | 0
_SEND = 3 << 30 | _ANSWER.size << 16 | 0x21 << 8 | 1
_CONTINUE = 1

_AT_FDCWD = -100
_PRIVATE = re.compile(r"/proc/(\d+)/(?:task/\d+/)?(?:environ|mem|maps|smaps|cwd|root|fd)\b")
# Which argument is the path, and which the folder that it is relative to, by call.
_PATH_ARGUMENT = {"open": 0, "creat": 0, "openat": 1, "openat2": 1, "execve": 0, "execveat": 1}

_ALSO = ("/dev", "/etc/group", "/etc/locale.alias", "/etc/nsswitch.conf", "/etc/passwd", *namespaces.SHOWN)

_OUR_CODE = os.path.dirname(os.path.realpath(__file__))


class Declared:
    """Which paths an action may open: `spec` (see sandbox.py) says what it may see."""

    def __init__(self, spec: dict):
        own = [os.path.join(spec["folder"], name) for name in ("root", "home", "tmp", "stdout", "stderr")]
        paths = [*namespaces.SYSTEM, *_ALSO, *spec["visible"], *own, *(source for source, _ in spec["binds"])]
        self._readable = {os.path.realpath(path) for path in paths}
        self._writable = {os.path.realpath(path) for path in (*own, "/dev")}
        # Whoever looks for a toolchain's file lists the folder that it is in.
        self._listed = {os.path.realpath(os.path.dirname(path)) for path in spec["visible"]}
        self._hidden = {os.path.realpath(path) for path in spec["hidden"]}

    def allows(self, path: str, *, writing: bool) -> bool:
        """Whether the absolute path, of whatever exists there, is among what is declared."""
        real = os.path.realpath(path)
        if writing:
            return self._is_below(real, self._writable)
        return real in self._listed or self._is_below(real, self._readable)

    def is_absent(self, path: str) -> bool:
        """Whether a path is one that programs come upon without meaning it: for them it is not there.

        Such is what distributions say of themselves, which programs look through; and what a worker's Python
        would show lines of in tracebacks: our own code, and modules where they stand for every action in namespaces.
        (There is something there if this build is itself an action.)
        """
        real = os.path.realpath(path)
        metadata = ".dist-info" in path and any(real.startswith(f"{folder}/") for folder in self._hidden)
        return metadata or os.path.dirname(real) == _OUR_CODE or real.startswith(f"{namespaces.ROOT}/")

    def _is_below(self, real: str, allowed: set[str]) -> bool:
        while real != "/":
            if real in allowed:
                return True
            if real in self._hidden:
                return False
            real = os.path.dirname(real)
        return False


def channel() -> tuple[_socket.socket, _socket.socket]:
    """Two ends of a channel: the process that is going to be asked has the first, the action's the second."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def submit(end: _socket.socket) -> None:
    """In the action's process: have everything that it opens from now on asked about, at the channel's other end.

    Where the kernel has no such questions, or a sandbox around this one asks already, nothing is asked.
    """
    with contextlib.suppress(OSError):
        listener = seccomp.ask_about_opening()
        end.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener))])
        os.close(listener)
    end.close()


def watch(end: _socket.socket, child: int, spec: dict) -> None:
    """Answer the questions about what the process `child`, and all that it starts, open; until it has ended.

    Each refusal is a line of the file `undeclared` in the sandbox's folder: the program, a tab, the path.
    """
    _, ancillary, _, _ = end.recvmsg(1, _socket.CMSG_SPACE(4))
    if not ancillary:
        return
    (listener,) = struct.unpack("i", ancillary[0][2][:4])
    ended = os.pidfd_open(child)
    declared = Declared(spec)
    numbers = seccomp.calls()
    names = {numbers[name]: name for name in seccomp.OPENING if name in numbers}
    events = select.poll()
    events.register(listener, select.POLLIN)
    events.register(ended, select.POLLIN)
    with open(os.path.join(spec["folder"], "undeclared"), "w", encoding="utf-8", errors="surrogateescape") as report:
        while ended not in (ready := dict(events.poll())) and not ready.get(listener, 0) & select.POLLHUP:
            with contextlib.suppress(FileNotFoundError):  # who asked has been killed meanwhile
                _answer(listener, declared, names, report)


def _answer(listener: int, declared: Declared, names: dict[int, str], report) -> None:
    buffer = bytearray(_QUESTION.size)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    identity, pid, _, number, _, _, *arguments = _QUESTION.unpack(buffer)
    path = _path_asked_for(pid, names[number], arguments)
    flags = _flags(names[number], arguments)
    writing = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    exists = path is not None and os.path.exists(path)
    if path is not None and not exists and flags & os.O_CREAT:
        # What is not there yet is as declared as the folder that it would be in.
        path, exists = os.path.dirname(path), True
    # With O_PATH nothing can be read, and whoever opens something by it asks again.
    if path is None or not exists or flags & os.O_PATH or _is_of_processes(path, pid) or declared.allows(path, writing=writing):
        answer = _ANSWER.pack(identity, 0, 0, _CONTINUE)
    elif declared.is_absent(path):
        answer = _ANSWER.pack(identity, 0, -errno.ENOENT, 0)
    else:
        report.write(f"{_program(pid)}\t{path}\n")
        report.flush()
        answer = _ANSWER.pack(identity, 0, -errno.EACCES, 0)
    fcntl.ioctl(listener, _SEND, bytearray(answer))


def _flags(name: str, arguments: list[int]) -> int:
    """How a file is opened. Those of openat2 are in memory of the process's, and taken for reading."""
    if name == "creat":
        return os.O_WRONLY | os.O_CREAT
    position = {"open": 1, "openat": 2}.get(name)
    return 0 if position is None else arguments[position]


def _path_asked_for(pid: int, name: str, arguments: list[int]) -> str | None:
    """The absolute path in a call's arguments; None if it cannot be read, for the kernel to complain of."""
    position = _PATH_ARGUMENT[name]
    try:
        text = os.fsdecode(_text_at(pid, arguments[position]))
        if text.startswith("/"):
            # What a process finds below these is its own, not that of who looks for it.
            return text.replace("/proc/self/", f"/proc/{pid}/", 1) if text.startswith("/proc/self/") else text
        folder = ctypes.c_int32(arguments[0] & 0xFFFFFFFF).value if position else _AT_FDCWD
        base = os.readlink(f"/proc/{pid}/cwd" if folder == _AT_FDCWD else f"/proc/{pid}/fd/{folder}")
    except OSError:
        return None
    return os.path.join(base, text) if text else base


def _text_at(pid: int, address: int) -> bytes:
    """The zero-terminated text at an address of a process, read page by page: the next one may not exist."""
    found = b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        while len(found) < 4096:
            memory.seek(address + len(found))
            piece = memory.read(4096 - (address + len(found)) % 4096)
            text, end, _ = piece.partition(b"\0")
            found += text
            if end or not piece:
                break
    return found


def _is_of_processes(path: str, pid: int) -> bool:
    """Whether a path is one below /proc that is neither a link to elsewhere nor another process's own affair."""
    if not path.startswith("/proc"):
        return False
    real = os.path.realpath(path)
    private = _PRIVATE.match(real)
    return f"{real}/".startswith("/proc/") and (private is None or private.group(1) == str(pid))


def _program(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return "a program"
