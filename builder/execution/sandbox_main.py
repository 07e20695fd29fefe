"""What stands between the builder and a sandboxed action: `python -I -S sandbox_main.py SPEC.json [PARENT]`.

Runs the command that the file describes (see isolation.py) behind the walls that it names, waits for
it, ends whatever it left running, and ends as it did. Where the walls cannot be put up, or the command
cannot be started, the reason is in the file `failed` beside the specification, and the status is 125.

A program of its own, since a process with threads, as the builder is, cannot change its namespaces.
A process with one thread that wants to run something else than a command calls `run` itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence

if __name__ == "__main__":
    # No distribution is importable here, and this package is one folder of the builder.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    __package__ = "execution"

from . import linux
from .signals import restore_signals

CANNOT_RUN = 125

def main(path: str, parent: str = "") -> None:
    """Run the command of the specification at `path`, and end with the process `parent`, if given."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        spec = json.load(file)
    if sys.platform != "linux":
        # There are no walls to put up, and nobody who could be asked about what is opened.
        os.chdir(os.path.join(spec["folder"], "root"))
        _execute(spec["argv"], spec["environment"])
    if parent:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            os._exit(CANNOT_RUN)
    _end_as(run(spec, lambda: _execute(spec["argv"], spec["environment"])))


# A specification, and what to do behind its walls.
Task = tuple[dict, Callable[[], object]]


def run(spec: dict, body: Callable[[], object]) -> int:
    """Call `body` in a sandboxed child of this process, which must have one thread. Returns the child's wait status.

    Then nothing runs any more that the child has left. `body` is not expected to return: if it does, the child's
    exit status is 0.
    """
    start = {"namespaces": _start_in_namespaces, "landlock": _start_restricted, "forest": _start_watched}[spec["mode"]]
    return _run_child(lambda writer: start(spec, body, writer), spec["folder"])


def run_in_namespaces(place: str, visible: Sequence[str], hidden: Sequence[str], wait: Callable[[], Task]) -> int:
    """As `run` in namespaces, which are made at once; `wait`, called in the child, tells what to run there, and how.

    `place` is an empty folder, and `visible` and `hidden` are those that the specification will have.
    """
    return _run_child(lambda writer: (_start_first_process(place, visible, hidden, wait, writer), _nothing), "")


def _run_child(start: Callable[[int], _Started], folder: str) -> int:
    reader, writer = os.pipe()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        child, meanwhile = start(writer)
    except OSError as error:
        return _failed(folder, str(error))
    os.close(writer)
    meanwhile()
    with open(reader, encoding="utf-8") as file:
        answers = [json.loads(line) for line in file]
    for answer in answers:
        if isinstance(answer, list):
            return _failed(*answer)
    if answers:
        # Of its namespace, only the first process is still there, and its end takes a while.
        return answers[0]
    status = os.waitpid(child, 0)[1]
    _end_descendants()
    return status


# What starts the child: returns its process id, and what to do until it ends.
_Started = tuple[int, Callable[[], object]]


def _nothing() -> None:
    """What to do until a child ends that needs nobody."""


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    """Become the program argv[0]. Unlike os.execvpe it imports nothing: the library may be out of sight by now."""
    program = argv[0]
    if "/" not in program:
        places = [f"{folder}/{program}" for folder in environment.get("PATH", "").split(":")]
        program = next((place for place in places if os.access(place, os.X_OK)), program)
    restore_signals()
    os.execve(program, argv, environment)


def _start_in_namespaces(spec: dict, body: Callable[[], object], writer: int) -> _Started:
    place = os.path.join(spec["folder"], "assembly")
    os.makedirs(place, exist_ok=True)
    return _start_first_process(place, spec["visible"], spec["hidden"], lambda: (spec, body), writer), _nothing


def _start_first_process(
    place: str, visible: Sequence[str], hidden: Sequence[str], wait: Callable[[], Task], writer: int
) -> int:
    from . import namespaces

    namespaces.leave()
    if child := os.fork():
        return child
    # The first process of its namespace: when it ends, the kernel kills all others.
    with _failures_to(writer, os.path.dirname(place)):
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        namespaces.prepare(place, visible, hidden)
        # What this process has open, and where it stands, is the host's: /proc must not show it to the action.
        os.chdir("/")
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        worker = os.fork()
        if not worker:
            linux.prctl(linux.PR_SET_DUMPABLE, 1)
            spec, body = wait()
            with _failures_to(writer, spec["folder"]):
                namespaces.enter(place, spec)
                _work(body)
        linux.drop_capabilities()
        status = _reap_until(worker)
        _end_namespace()
        os.write(writer, b"%d\n" % status)
    os._exit(0)


def _start_restricted(spec: dict, body: Callable[[], object], writer: int) -> _Started:
    from . import landlock

    return _start_among_others(spec, body, writer, lambda: landlock.restrict(spec)), _nothing


def _start_watched(spec: dict, body: Callable[[], object], writer: int) -> _Started:
    from . import opened

    ours, theirs = opened.channel()
    child = _start_among_others(spec, body, writer, lambda: opened.submit(theirs))
    theirs.close()
    return child, lambda: opened.watch(ours, child, spec)


def _start_among_others(spec: dict, body: Callable[[], object], writer: int, restrict: Callable[[], None]) -> int:
    """Start the child for a mode in which it stays among the host's processes."""
    # Orphans of the action become children of this process, which can end them.
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    if child := os.fork():
        return child
    with _failures_to(writer, spec["folder"]):
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(os.path.join(spec["folder"], "root"))
        restrict()
        _work(body)
    os._exit(0)


def _work(body: Callable[[], object]) -> None:
    os.umask(0o022)
    body()
    os._exit(0)


@contextlib.contextmanager
def _failures_to(writer: int, folder: str):
    """Tell the first process of an OSError in `folder`, and end the process, whichever of the forked it is."""
    try:
        yield
    except OSError as error:
        os.write(writer, f"{json.dumps([folder, str(error)])}\n".encode())
        os._exit(CANNOT_RUN)


def _reap_until(worker: int) -> int:
    """Reap every process that ends, until `worker` does; its wait status."""
    while True:
        pid, status = os.wait()
        if pid == worker:
            return status


def _end_namespace() -> None:
    """Kill and reap all other processes of the namespace of which this is the first."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _end_descendants() -> None:
    """Kill and reap all children, and those that they leave to this process, until there are none."""
    with contextlib.suppress(ChildProcessError, FileNotFoundError):
        while True:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGKILL)
            os.wait()


def _end_as(status: int) -> None:
    """End as the process with this wait status did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _failed(folder: str, reason: str) -> int:
    """The wait status where the sandbox cannot be had, or the command not be started, once the reason is written down."""
    with open(os.path.join(folder, "failed"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(reason)
    return CANNOT_RUN << 8


if __name__ == "__main__":
    main(*sys.argv[1:])
