"""Warm workers: runs Python actions in processes forked from zygotes, which it finds or starts (see zygote.py).

A zygote belongs to a user and a toolchain, whichever builds ask it. It listens on a socket whose name is
the digest of all that it has loaded, so that another toolchain, or an edited layer, is another socket.
Wherever anything is not as it should be, the answer is that no worker can do it: then a new process does.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .distributions import installed
from .processes import Processes

IDLE_SECONDS = 600.0

# What the toolchain's zygote imports, where it is installed.
TOOLCHAIN_MODULES = ("torch", "torch.export")

_HERE = Path(__file__).parent
_PROGRAM = _HERE / "zygote.py"
_LAUNCHER = str(_HERE / "python_launcher.py")

# Libraries read variables of these kinds when they are loaded, which in a worker was before it knew the action's.
_START_UP_VARIABLES = ("PYTHON", "LD_", "TORCH", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_", "LC_")
_HARMLESS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class Layer:
    """What actions begin by importing: `steps` ("module" or "module:function", which is called) over `files`.

    `files` are inputs of the action by exec_path, each with its place and SHA-256; `import_roots` are
    relative to the execution root.
    """

    steps: tuple[str, ...]
    import_roots: tuple[str, ...]
    files: Mapping[str, tuple[Path, str]]


# The zygotes from the toolchain's to that with all layers, each by its key and with what it adds.
_Chain = list[tuple[str, "Layer | None"]]


class NoWorker(Exception):
    """No worker can run the action, or one ended in the middle of it: then what it leaves behind is worth nothing."""


class Workers:
    """The workers of this user. `folder` holds their sockets; an unused zygote ends after `idle_seconds`.

    `fixed` is the environment that all actions have; `modules` are those of the toolchain that are preloaded. A class because it remembers, for one build, which
    zygotes cannot be had, so that it does not try again for each action. Safe to use from several threads.
    """

    def __init__(
        self,
        folder: Path,
        fixed: Mapping[str, str],
        idle_seconds: float = IDLE_SECONDS,
        modules: tuple[str, ...] = TOOLCHAIN_MODULES,
    ):
        self.folder = folder
        self.fixed = fixed
        self.idle_seconds = idle_seconds
        self.modules = modules
        self._lock = threading.Lock()
        self._failed: set[str] = set()

    def run(
        self,
        specification: Mapping[str, object],
        layers: Sequence[Layer],
        files: Sequence[str],
        *,
        processes: Processes,
        stdout: IO[bytes],
        stderr: IO[bytes],
        timeout_seconds: float | None = None,
    ) -> int:
        """Run the command of a sandbox's specification (see sandbox.py) over inputs at `files`, to its end.

        Returns its exit status, or minus the signal that ended it.

        Raises:
            NoWorker: no worker could, or it ended before its action did.
            Interrupted, subprocess.TimeoutExpired: as Processes.run.
        """
        argv = list(specification["argv"])  # type: ignore[call-overload]
        if not _suits(argv, specification["environment"], self.fixed):  # type: ignore[arg-type]
            raise NoWorker("the command has to start in a new process")
        request = {"spec": specification, "import_roots": _import_roots(argv), "files": list(files)}
        chain = _chain(argv, self.modules, layers)
        connection = self._connect(argv, chain)
        if connection is None:
            raise NoWorker("there is no zygote")
        with connection, processes.ended_by(lambda: _hang_up(connection, socket.SHUT_RDWR)):
            _ask(connection, request, stdout.fileno(), stderr.fileno())
            answer = _hear(connection)
            if "process" in answer:
                return _wait(connection, argv, timeout_seconds)
        if not answer:
            self._give_up(chain[-1][0])
        raise NoWorker(str(answer))

    def _give_up(self, key: str) -> None:
        with self._lock:
            self._failed.add(key)

    def _connect(self, argv: Sequence[str], chain: _Chain) -> socket.socket | None:
        """A connection to the zygote at the end of `chain`, which is started if need be; None if it cannot be had."""
        with self._lock:
            if chain[-1][0] in self._failed:
                return None
        try:
            folder = _private_folder(self.folder)
        except OSError:
            return None
        try:
            if connection := _connection(folder, chain[-1][0]):
                return connection
            with _locked(folder):
                return self._connect_or_start(folder, argv, chain)
        except OSError:
            return None
        finally:
            os.close(folder)

    def _connect_or_start(self, folder: int, argv: Sequence[str], chain: _Chain) -> socket.socket | None:
        """As _connect, while nobody else starts any."""
        key, layer = chain[-1]
        if connection := _connection(folder, key):
            return connection
        path = str(self.folder / key)
        with _listener(folder, key) as listener:
            if layer is None:
                _start(self, argv, path, listener)
            elif not self._add_layer(folder, argv, chain[:-1], layer, path, listener):
                return None
        return _connection(folder, key)

    def _add_layer(
        self, folder: int, argv: Sequence[str], chain: _Chain, layer: Layer, path: str, listener: socket.socket
    ) -> bool:
        """Have the zygote at the end of `chain` fork one with a further layer; whether it does."""
        request = {
            "path": path,
            "layer": {
                "steps": layer.steps,
                "import_roots": layer.import_roots,
                "files": {exec_path: [str(place), digest] for exec_path, (place, digest) in layer.files.items()},
            },
        }
        for _ in range(2):
            connection = self._connect_or_start(folder, argv, chain)
            if connection is None:
                return False
            with connection:
                _ask(connection, request, listener.fileno())
                answer = _hear(connection)
            if "refused" not in answer:
                return "process" in answer
        return False


def _suits(argv: Sequence[str], environment: Mapping[str, str], fixed: Mapping[str, str]) -> bool:
    """Whether a process that has started already can do as one that starts with this command and environment."""
    if sys.platform != "linux" or _LAUNCHER not in argv:
        return False
    if any(environment.get(name) != value for name, value in fixed.items()):
        return False
    others = environment.keys() - fixed.keys() - {_HARMLESS}
    return not any(name.startswith(_START_UP_VARIABLES) for name in others)


def _command(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The interpreter with its options, and the folders of the toolchain's distributions."""
    launcher = argv.index(_LAUNCHER)
    return list(argv[:launcher]), list(argv[launcher + 1 : argv.index("--")])


def _import_roots(argv: Sequence[str]) -> list[str]:
    arguments = argv[argv.index("--") + 1 :]
    prefix = "--import-root="
    return [argument[len(prefix) :] for argument in arguments if argument.startswith(prefix)]


def _chain(argv: Sequence[str], modules: Sequence[str], layers: Sequence[Layer]) -> _Chain:
    """The zygotes that the command needs; each key is a digest of all that is loaded there."""
    key = _toolchain_key(*_command(argv), modules)
    chain: _Chain = [(key, None)]
    for layer in layers:
        files = {exec_path: digest for exec_path, (_, digest) in layer.files.items()}
        key = _digest([key, layer.steps, layer.import_roots, files])
        chain.append((key, layer))
    return chain


def _toolchain_key(command: list[str], site_packages: list[str], modules: Sequence[str]) -> str:
    """Tells apart what toolchains have on disk; files edited in place are for the zygote itself to notice."""
    sources = [hashlib.sha256(source.read_bytes()).hexdigest() for source in sorted(_HERE.glob("*.py"))]
    # Where the sources are matters as well: a zygote of another checkout knows its own launcher only.
    return _digest([sys.version, command, site_packages, installed(site_packages), str(_HERE), sources, modules, surroundings()])


def surroundings() -> list[object]:
    """What processes inherit and actions would have of the build: its namespaces, priority and processors.

    A container that shares its user's folder has workers of its own, and so has a build that was started by nice.
    """
    namespaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "user")]
    return [namespaces, os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _private_folder(path: Path) -> int:
    """A descriptor of the folder, made if need be. Raises OSError unless it is this user's alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    found = os.fstat(folder)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(folder)
        raise PermissionError(f"{path} is not private")
    return folder


def _address(folder: int, name: str) -> str:
    """A socket's address in a folder, however long the folder's path is."""
    return f"/proc/self/fd/{folder}/{name}"


def _connection(folder: int, key: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(_address(folder, key))
    except OSError:
        connection.close()
        return None
    return connection


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Nobody else starts zygotes meanwhile."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _listener(folder: int, key: str) -> socket.socket:
    """A listening socket, in its place only once it listens: whoever connects waits for the zygote to answer."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    name = f"{key}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    listener.bind(_address(folder, name))
    listener.listen(128)
    os.rename(name, key, src_dir_fd=folder, dst_dir_fd=folder)
    return listener


def _start(workers: Workers, argv: Sequence[str], path: str, listener: socket.socket) -> None:
    """Start the toolchain's zygote. It outlives this process, and what goes wrong in it is in `<socket>.log`."""
    command, site_packages = _command(argv)
    configuration = {
        "listener": listener.fileno(),
        "path": path,
        "idle_seconds": workers.idle_seconds,
        "site_packages": site_packages,
        "modules": workers.modules,
    }
    scratch = workers.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="start-", dir=scratch)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(configuration, file)
    with open(f"{path}.log", "wb") as log:
        process = subprocess.Popen(
            [*command, str(_PROGRAM), name],
            cwd="/",
            env={**workers.fixed, "HOME": str(scratch), "TMPDIR": str(scratch), _HARMLESS: "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )
    # Whoever ends first: this process does not wait for it, and is told nothing if it ends earlier.
    threading.Thread(target=process.wait, daemon=True).start()


def _ask(connection: socket.socket, request: object, *descriptors: int) -> None:
    """Send a request. One that cannot be sent is noticed when its answer does not come."""
    question = os.memfd_create("request")
    try:
        with open(question, "w", encoding="utf-8", errors="surrogateescape", closefd=False) as file:
            json.dump(request, file)
        os.lseek(question, 0, os.SEEK_SET)
        with contextlib.suppress(OSError):
            socket.send_fds(connection, [b"?"], [question, *descriptors])
    finally:
        os.close(question)


def _hear(connection: socket.socket) -> dict:
    """An answer; an empty one where the zygote has ended."""
    try:
        return json.loads(connection.recv(1 << 16) or b"{}")
    except OSError:
        return {}


def _hang_up(connection: socket.socket, how: int) -> None:
    """The zygote takes it for the wish that the action end; SHUT_WR waits for the news that it has."""
    with contextlib.suppress(OSError):
        connection.shutdown(how)


def _wait(connection: socket.socket, argv: Sequence[str], timeout_seconds: float | None) -> int:
    """The status with which the connection's action ends. Raises NoWorker, subprocess.TimeoutExpired."""
    connection.settimeout(timeout_seconds)
    try:
        answer = json.loads(connection.recv(1 << 16) or b"{}")
    except TimeoutError:
        _hang_up(connection, socket.SHUT_WR)
        connection.settimeout(None)
        _hear(connection)
        raise subprocess.TimeoutExpired(list(argv), timeout_seconds or 0.0) from None
    except OSError:
        answer = {}
    if "status" not in answer:
        raise NoWorker("the worker ended")
    return answer["status"]
