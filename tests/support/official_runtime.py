"""Runs .pte files on the official ExecuTorch runtime, each in a process of its own.

A malformed program can abort or crash the runtime, so by default a call runs in a child that is
forked from a server with torch and the runtime already imported: about 20 ms a call, and nothing
that happens there reaches the tests. What the runtime writes to stderr, where alone it says what
went wrong, is put into the error.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Call = tuple[str, Sequence[Any]]


class RuntimeFailure(AssertionError):
    """The runtime refused a program or a call, crashed or hung; the message ends with its stderr."""


@dataclass(frozen=True)
class _Request:
    pte: bytes | str
    calls: Sequence[Call]
    backends: Sequence[str]
    modules: Sequence[str]
    ptd: bytes | str | None
    separate_arenas: bool
    timeout: int


def run_methods(
    pte: bytes | os.PathLike[str] | str,
    calls: Sequence[Call],
    *,
    backends: Sequence[os.PathLike[str] | str] = (),
    modules: Sequence[str] = (),
    ptd: bytes | os.PathLike[str] | str | None = None,
    separate_arenas: bool = False,
    timeout: int = 120,
) -> list[list[Any]]:
    """Load a program once, make the calls in order, and return each call's flat list of outputs.

    `calls` are (method name, flat inputs). `backends` are shared libraries that register backends
    or kernels when loaded, and `modules` Python modules that do so when imported. Without
    `separate_arenas` and `ptd`, all methods share one set of memory arenas as under
    executorch.runtime.Runtime; with either, each method has its own as under Module.

    Raises:
        RuntimeFailure: anything else than success, within `timeout` seconds.
    """
    return _run_in_child(_request(pte, calls, backends, modules, ptd, separate_arenas, timeout))


def run_method(
    pte: bytes | os.PathLike[str] | str, inputs: Sequence[Any], method: str = "forward", **options: Any
) -> list[Any]:
    """The flat outputs of one call of one method; options as for run_methods."""
    return run_methods(pte, [(method, inputs)], **options)[0]


def run_methods_here(
    pte: bytes | os.PathLike[str] | str,
    calls: Sequence[Call],
    *,
    ptd: bytes | os.PathLike[str] | str | None = None,
    separate_arenas: bool = False,
) -> list[list[Any]]:
    """run_methods in this very process: cheaper, for programs that are known to be sound."""
    return _execute(_request(pte, calls, (), (), ptd, separate_arenas, 0))


def operator_names(modules: Sequence[str] = ()) -> frozenset[str]:
    """The operators that the runtime has, as "namespace::name.overload" (no dot without overload)."""
    for module in modules:
        importlib.import_module(module)
    return frozenset(_portable_lib()._get_operator_names())


def _request(pte, calls, backends, modules, ptd, separate_arenas, timeout) -> _Request:
    return _Request(
        _plain(pte), [(name, list(inputs)) for name, inputs in calls], [os.fspath(path) for path in backends],
        list(modules), None if ptd is None else _plain(ptd), separate_arenas, timeout,
    )  # fmt: skip


def _plain(source: bytes | os.PathLike[str] | str) -> bytes | str:
    return bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else os.path.abspath(os.fspath(source))


def _portable_lib() -> Any:
    import torch  # noqa: F401  (the extension links against torch's libraries)

    # Not executorch.extension.pybindings.portable_lib: that module imports all of executorch.exir.
    return importlib.import_module("executorch.extension.pybindings._portable_lib")


def _execute(request: _Request) -> list[list[Any]]:
    runtime = _portable_lib()
    for module in request.modules:
        importlib.import_module(module)
    if request.backends:  # they take the runtime's symbols from it
        ctypes.CDLL(runtime.__file__, mode=ctypes.RTLD_GLOBAL)
    libraries = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in request.backends]
    consistency = runtime.Verification.InternalConsistency
    pte = Path(request.pte).read_bytes() if isinstance(request.pte, str) else request.pte
    if request.ptd is not None or request.separate_arenas:
        ptd = Path(request.ptd).read_bytes() if isinstance(request.ptd, str) else request.ptd
        module = runtime._load_for_executorch_from_buffer(pte, ptd, program_verification=consistency)
        outputs = [module.run_method(name, inputs) for name, inputs in request.calls]
    else:
        program = runtime._load_program_from_buffer(pte, program_verification=consistency)
        methods: dict[str, Any] = {}
        outputs = []
        for name, inputs in request.calls:
            if name not in methods:
                methods[name] = program.load_method(name)
            outputs.append(methods[name](inputs))
    del libraries
    return outputs


@dataclass(frozen=True)
class _Reply:
    """`outcome`: what the child has pickled, outputs or a text that says why there are none; None without either."""

    outcome: bytes | None
    wait_status: int
    stderr: str


def _run_in_child(request: _Request) -> list[list[Any]]:
    connection = _server()
    connection.send_bytes(_pickled(request))
    reply: _Reply = pickle.loads(connection.recv_bytes())
    outcome = pickle.loads(reply.outcome) if reply.outcome is not None else _ending(reply.wait_status, request.timeout)
    if isinstance(outcome, str):
        raise RuntimeFailure(f"{outcome}\n{reply.stderr}".rstrip())
    return outcome


def _ending(wait_status: int, timeout: int) -> str:
    """How a child ended that left no outcome."""
    if not os.WIFSIGNALED(wait_status):
        return f"the runtime's process ended with status {os.WEXITSTATUS(wait_status)}"
    number = os.WTERMSIG(wait_status)
    hint = f" after {timeout} s" if number == signal.SIGALRM else ""
    return f"the runtime was killed by {signal.Signals(number).name}{hint}"


def _pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Writes also tensors of half complex numbers, which torch pickles, and then cannot read."""

    def reducer_override(self, value: Any) -> Any:
        if type(value).__name__ == "Tensor" and str(value.dtype) == "torch.complex32":
            import torch

            return torch.Tensor.view, (value.view(torch.int32), value.dtype)
        return NotImplemented


@functools.lru_cache(maxsize=None)
def _server() -> Connection:
    request_in, request_out = os.pipe()
    reply_in, reply_out = os.pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-m", "support.official_runtime", str(request_in), str(reply_out)],
        pass_fds=(request_in, reply_out), env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(request_in)
    os.close(reply_out)
    connection = _Duplex(Connection(reply_in, writable=False), Connection(request_out, readable=False))
    atexit.register(_stop, process, connection)
    return connection


@dataclass(frozen=True)
class _Duplex:
    reader: Connection
    writer: Connection

    def send_bytes(self, data: bytes) -> None:
        self.writer.send_bytes(data)

    def recv_bytes(self) -> bytes:
        return self.reader.recv_bytes()


def _stop(process: subprocess.Popen[bytes], connection: _Duplex) -> None:
    connection.writer.close()  # the server ends at the end of its input
    process.wait(timeout=10)


def _serve(requests: Connection, replies: Connection) -> None:
    _portable_lib()
    while True:
        try:
            frame = requests.recv_bytes()
        except EOFError:
            return
        replies.send_bytes(pickle.dumps(_in_fork(frame)))


def _in_fork(frame: bytes) -> _Reply:
    """What comes of a pickled request. Neither it nor its outcome is read in this process, which must live on."""
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            os.dup2(stderr.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            status = 1
            try:
                result.write(_pickled(_outcome(frame)))
                result.flush()
                status = 0
            finally:
                os._exit(status)
        _, wait_status = os.waitpid(child, 0)
        stderr.seek(0)
        result.seek(0)
        said = stderr.read().decode(errors="replace")
        return _Reply(result.read() if wait_status == 0 else None, wait_status, said)


def _outcome(frame: bytes) -> list[list[Any]] | str:
    try:
        request: _Request = pickle.loads(frame)
        signal.alarm(request.timeout)
        return _execute(request)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    # Through the importable module, so that pickled values name it and not __main__.
    module = importlib.import_module("support.official_runtime")
    module._serve(
        Connection(int(sys.argv[1]), writable=False),
        Connection(int(sys.argv[2]), readable=False),
    )
