"""The zygote, a program: imports what many Python actions import, and forks a process for each of them.

`python -S -s zygote.py CONFIGURATION.json`, started by workers.py with a listening socket of the kind SEQPACKET. On
a connection comes one message: the descriptor of a file with a request in JSON, and the descriptors it
needs. A request is either to run an action, which the process forked for it does as sandbox_main.py does; or
to become the zygote of a further layer of imports. Whoever asked for an action ends it by closing the
connection. Actions end when the zygote does; nobody else notices, since whoever asked starts another.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import glob
import json
import os
import select
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType

if __name__ == "__main__":
    # No distribution is importable here, and this package is one folder of the builder.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    __package__ = "execution"

# All that forked processes need of this folder is imported before they enter their sandboxes.
from . import forked, linux, preloading

# How often an idle zygote looks whether it is still the one that is asked.
_TICK_SECONDS = 15.0
# Each edit of a layer's sources makes another zygote; older ones are not asked again.
_KEPT_LAYERS = 4


@dataclass
class Zygote:
    """What one zygote knows. Its layers' `steps` imported `modules` from `folders`; `files` are the toolchain's.

    `asked` has the connections of which a request is awaited, `running` those of actions by the descriptor
    at which they report their end; `layers` are the processes of further zygotes, oldest first. It `is_compact` once
    its memory was made cheap to fork; then `spare` waits for the next action.
    """

    listener: socket.socket
    path: str
    idle_seconds: float
    site_packages: list[str]
    folders: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    modules: list[ModuleType] = field(default_factory=list)
    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    asked: dict[int, socket.socket] = field(default_factory=dict)
    running: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    layers: list[int] = field(default_factory=list)
    is_compact: bool = False
    spare: forked.Spare | None = None


def main(configuration_path: str) -> None:
    """Import the toolchain's modules, then serve."""
    with open(configuration_path, encoding="utf-8") as file:
        configuration = json.load(file)
    os.unlink(configuration_path)
    # What is found beside this file is for this program alone.
    del sys.path[0]
    zygote = Zygote(
        socket.socket(fileno=configuration["listener"]),
        configuration["path"],
        configuration["idle_seconds"],
        configuration["site_packages"],
    )
    _remove_leftovers(os.path.dirname(zygote.path))
    gc.disable()
    began = time.time_ns()
    preloading.preload_toolchain(configuration["modules"], zygote.site_packages)
    zygote.files = _loaded_files(began)
    serve(zygote)


def serve(zygote: Zygote) -> None:
    """Answer requests until there have been none for a while, or the files that were loaded have changed."""
    _settle(zygote)
    own = _inode(zygote.path)
    last = time.monotonic()
    while True:
        idle = not zygote.running and not zygote.asked
        remaining = zygote.idle_seconds - (time.monotonic() - last)
        if idle and (remaining <= 0 or _inode(zygote.path) != own):
            break
        descriptors = [*zygote.asked, *zygote.running]
        descriptors += [connection.fileno() for _, connection in zygote.running.values()]
        descriptors.append(zygote.listener.fileno())
        # The listener comes last: a new connection may get the number of one that has just ended.
        for ready in _wait(descriptors, min(max(remaining, 0.1), _TICK_SECONDS)):
            last = time.monotonic()
            _handle(zygote, ready)
    if _inode(zygote.path) == own:
        os.unlink(zygote.path)


def _settle(zygote: Zygote) -> None:
    """Make what is loaded cheap to share. Ends the process if forking it were not safe."""
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"{threads} threads: a process forked from this one might hang")
    preloading.forget_traces(zygote.files)
    zygote.modules = preloading.modules_below(zygote.folders)
    gc.collect()
    gc.freeze()


def _wait(descriptors: list[int], seconds: float) -> list[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _handle(zygote: Zygote, ready: int) -> None:
    """Do what a descriptor that is ready asks for; one of those may be gone by the time of another's turn."""
    if ready == zygote.listener.fileno():
        connection, _ = zygote.listener.accept()
        zygote.asked[connection.fileno()] = connection
    elif ready in zygote.asked:
        with zygote.asked.pop(ready) as connection:
            _answer(zygote, connection)
    elif ready in zygote.running:
        _finish(zygote, ready)
    else:
        for process, connection in zygote.running.values():
            if connection.fileno() == ready:
                _kill(process)


def _answer(zygote: Zygote, connection: socket.socket) -> None:
    """Do what a request says. Closing the connection without an answer says that it cannot be done."""
    try:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 4)
    except OSError:
        return
    try:
        if _peer(connection) != os.getuid() or len(descriptors) < 2:
            return
        with open(descriptors[0], encoding="utf-8", errors="surrogateescape", closefd=False) as file:
            request = json.load(file)
        if "layer" in request:
            if _is_current(zygote, connection):
                _start_layer(zygote, request, descriptors[1], connection)
        elif name := preloading.shadows(_top_names(zygote), request["import_roots"], request["files"]):
            _say(connection, unfit=f"{name} is importable from several folders")
        else:
            _start_action(zygote, request, descriptors, connection)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _start_action(zygote: Zygote, request: dict, descriptors: list[int], connection: socket.socket) -> None:
    if not zygote.is_compact:
        # Not before: of a zygote that only others are forked from, these share the memory as it is.
        linux.collapse_memory()
        zygote.is_compact = True
    spec, streams = request["spec"], (descriptors[1], descriptors[-1])
    preloaded = forked.Preloaded(zygote.steps, zygote.modules, zygote.folders, zygote.files)
    spare, zygote.spare = zygote.spare, None
    if spare and spare.give(spec, descriptors[0], *streams):
        started = spare.forked
    else:
        if spare:
            spare.end()
        started = forked.start(preloaded, spec, *streams)
    # Thousands of files are looked at while it runs: nearly always, it would have waited for nothing.
    if not _is_current(zygote, connection):
        os.close(started.report)
        _end(started.process)
        return
    kept = socket.socket(fileno=os.dup(connection.fileno()))
    zygote.running[started.report] = (started.process, kept)
    _say(kept, process=started.process)
    with contextlib.suppress(OSError):
        zygote.spare = forked.prepare(preloaded, spec)


def _top_names(zygote: Zygote) -> set[str]:
    return {module.__name__.partition(".")[0] for module in zygote.modules}


def _finish(zygote: Zygote, report: int) -> None:
    """Tell how an action ended; what it left running in its session ends, too."""
    process, connection = zygote.running.pop(report)
    with connection:
        reported = os.read(report, 32)
        os.close(report)
        if reported:
            _say(connection, status=os.waitstatus_to_exitcode(int(reported)))
        status = _end(process)
        if not reported:
            _say(connection, status=os.waitstatus_to_exitcode(status))


def _start_layer(zygote: Zygote, request: dict, listener: int, connection: socket.socket) -> None:
    """Fork a zygote that has one more layer, and serves on a socket of its own."""
    for process in list(zygote.layers):
        if os.waitpid(process, os.WNOHANG)[0]:
            zygote.layers.remove(process)
    while len(zygote.layers) >= _KEPT_LAYERS:
        process = zygote.layers.pop(0)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    process = os.fork()
    if process:
        zygote.layers.append(process)
        _say(connection, process=process)
        return
    status = 1
    try:
        own = socket.socket(fileno=os.dup(listener))
        for open_socket in (zygote.listener, connection, *zygote.asked.values()):
            open_socket.close()
        for report, (_, other) in zygote.running.items():
            os.close(report)
            other.close()
        os.close(listener)
        if zygote.spare:
            zygote.spare.close()
        os.setsid()
        _be_layer(zygote, request, own)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _be_layer(zygote: Zygote, request: dict, listener: socket.socket) -> None:
    # Not by the socket's name alone: the one that this replaces may still be about to remove its own.
    folder = f"{os.path.realpath(request['path'])}-{os.getpid()}.files"
    try:
        layer = Zygote(listener, request["path"], zygote.idle_seconds, zygote.site_packages)
        layer.folders = [*zygote.folders, folder]
        layer.steps = [*zygote.steps, *request["layer"]["steps"]]
        began = time.time_ns()
        gc.disable()
        preloading.preload_layer(request["layer"], folder, zygote.site_packages)
        # Those that were loaded already are as they were when they were loaded.
        layer.files = {**_loaded_files(began, but_not_below=layer.folders), **zygote.files}
        serve(layer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _loaded_files(began_ns: int, but_not_below: Sequence[str] = ()) -> dict[str, tuple[int, int, int]]:
    """The toolchain's files that this process has loaded, as they are now; ends it if one changed since `began_ns`."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        mapped = {line.rstrip("\n").partition("/")[2] for line in file if ".so" in line}
    paths = {path for path in modules if path} | {f"/{path}" for path in mapped if path}
    copies = tuple(f"{folder}/" for folder in but_not_below)
    files = {path: _status(path) for path in paths if not path.startswith(copies) and os.path.isfile(path)}
    if changed := [path for path, (_, _, changed_ns) in files.items() if changed_ns >= began_ns]:
        sys.exit(f"{changed[0]} changed while it was being loaded")
    return files


def _is_current(zygote: Zygote, connection: socket.socket) -> bool:
    """Whether the toolchain's files are as they were when they were loaded; if not, nobody finds this zygote again."""
    if all(_status(path) == status for path, status in zygote.files.items()):
        return True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(zygote.path)
    _say(connection, refused="the toolchain has changed")
    return False


def _status(path: str) -> tuple[int, int, int]:
    """What changes whenever a file does: its inode, its size, and the time at which the inode last changed."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_ctime_ns)


def _remove_leftovers(folder: str) -> None:
    """Remove what zygotes that were killed left behind: sockets to which nobody listens, and their files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    # All of them before any is removed, and others may come and go meanwhile.
    for entry in list(os.scandir(folder)):
        is_socket = _is_socket(entry.path)
        if is_socket and not entry.name.endswith(".new") and not _is_listened_to(f"/proc/self/fd/{descriptor}/{entry.name}"):
            for name in (entry.path, f"{entry.path}.log"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
            for copies in glob.glob(f"{glob.escape(entry.path)}-*.files"):
                shutil.rmtree(copies, ignore_errors=True)
    os.close(descriptor)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_listened_to(path: str) -> bool:
    # Whoever listens takes a connection without a request for somebody who changed their mind.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) != errno.ECONNREFUSED


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return 0


def _kill(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:  # It has not come to make its session yet, or has ended.
        os.kill(process, signal.SIGKILL)


def _end(process: int) -> int:
    """Kill a child's session, and wait for the child: before, its number is not given to another. Its wait status."""
    _kill(process)
    return os.waitpid(process, 0)[1]


def _peer(connection: socket.socket) -> int:
    """The user at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 3 * ctypes.sizeof(ctypes.c_int))
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _say(connection: socket.socket, **answer: object) -> None:
    try:
        connection.send(json.dumps(answer).encode())
    except OSError:
        pass  # Whoever asked has gone.


if __name__ == "__main__":
    main(sys.argv[1])
