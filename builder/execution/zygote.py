"""The zygote, a program: imports what many Python actions import, and forks a process for each of them.

`python -S -s zygote.py CONFIGURATION.json`, started by workers.py with a listening socket of the kind SEQPACKET. On
a connection comes one message: the descriptor of a file with a request in JSON, and the descriptors it
needs. A request is either to run an action, which the process forked for it does as sandbox_main.py does; or
to become the zygote of a further layer of imports. Whoever asked for an action ends it by closing the
connection. Actions end when the zygote does; nobody else notices, since whoever asked starts another.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field

if __name__ == "__main__":
    # No distribution is importable here, and this package is one folder of the builder.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    __package__ = "execution"

# All that forked processes need of this folder is imported before they enter their sandboxes.
from . import fresh_process, linux, namespaces, preloading, sandbox_main

# A machine's memory is an action's up to this share, so that a runaway is not the end of everything else.
_MEMORY_SHARE = 0.9
# How often an idle zygote looks whether it is still the one that is asked.
_TICK_SECONDS = 15.0
# Each edit of a layer's sources makes another zygote; older ones are not asked again.
_KEPT_LAYERS = 4


@dataclass
class Zygote:
    """What one zygote knows. `folders`: those from which its layers were imported; `files`: what it has loaded.

    `asked` has the connections of which a request is awaited, `running` those of actions by the descriptor
    that tells of their end; `layers` are the processes of further zygotes, oldest first.
    """

    listener: socket.socket
    path: str
    idle_seconds: float
    site_packages: list[str]
    preloaded: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    files: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    asked: dict[int, socket.socket] = field(default_factory=dict)
    running: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    layers: list[int] = field(default_factory=list)


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
    gc.disable()
    preloading.preload_toolchain(configuration["modules"], zygote.site_packages)
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
        descriptors = [zygote.listener.fileno(), *zygote.asked, *zygote.running]
        descriptors += [connection.fileno() for _, connection in zygote.running.values()]
        for ready in _wait(descriptors, min(max(remaining, 0.1), _TICK_SECONDS)):
            last = time.monotonic()
            _handle(zygote, ready)
    if _inode(zygote.path) == own:
        os.unlink(zygote.path)


def _settle(zygote: Zygote) -> None:
    """Make what is loaded cheap to share, and remember on which files it depends."""
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"{threads} threads: a process forked from this one might hang")
    preloading.forget_traces()
    zygote.files = _loaded_files(zygote)
    zygote.names = preloading.names_below(zygote.folders)
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
        if _files_changed(zygote):
            os.unlink(zygote.path)
            _say(connection, refused="the toolchain has changed")
        elif "layer" in request:
            _start_layer(zygote, request, descriptors[1], connection)
        elif name := preloading.shadows(zygote.names, request["import_roots"], request["files"]):
            _say(connection, unfit=f"{name} is importable from several folders")
        else:
            _start_action(zygote, request, descriptors, connection)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _start_action(zygote: Zygote, request: dict, descriptors: list[int], connection: socket.socket) -> None:
    parent = os.getpid()
    process = os.fork()
    if not process:
        try:
            os.setsid()
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(sandbox_main.CANNOT_RUN)
            _run_action(zygote, request["spec"], descriptors[1], descriptors[-1])
        finally:
            os._exit(sandbox_main.CANNOT_RUN)
    kept = socket.socket(fileno=os.dup(connection.fileno()))
    zygote.running[os.pidfd_open(process)] = (process, kept)
    _say(kept, process=process)


def _run_action(zygote: Zygote, spec: dict, stdout: int, stderr: int) -> None:
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    # The zygote's sockets are above these; it has no business with files of its own.
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    limit = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    sandbox_main.run(spec, lambda: fresh_process.become(spec["argv"], spec["environment"], zygote.folders))


def _finish(zygote: Zygote, ended: int) -> None:
    """Tell how an action ended; what it left running in its session ends, too."""
    process, connection = zygote.running.pop(ended)
    # Its number is not given to another process before it is waited for.
    _kill(process)
    _, status = os.waitpid(process, 0)
    os.close(ended)
    with connection:
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
        for ended, (_, other) in zygote.running.items():
            os.close(ended)
            other.close()
        os.close(listener)
        os.setsid()
        _be_layer(zygote, request, own)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _be_layer(zygote: Zygote, request: dict, listener: socket.socket) -> None:
    folder = os.path.realpath(tempfile.mkdtemp(prefix="layer-", dir=os.path.dirname(zygote.path)))
    try:
        layer = Zygote(listener, request["path"], zygote.idle_seconds, zygote.site_packages)
        layer.folders = [*zygote.folders, folder]
        layer.files = zygote.files
        gc.disable()
        preloading.preload_layer(request["layer"], folder, zygote.site_packages)
        serve(layer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _loaded_files(zygote: Zygote) -> dict[str, tuple[int, int, int]]:
    """The toolchain's files that this process has loaded, as they are now."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        mapped = {line.rstrip("\n").partition("/")[2] for line in file if ".so" in line}
    paths = {path for path in modules if path} | {f"/{path}" for path in mapped if path}
    return zygote.files or {path: _status(path) for path in paths if os.path.isfile(path)}


def _files_changed(zygote: Zygote) -> bool:
    return any(_status(path) != status for path, status in zygote.files.items())


def _status(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


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
