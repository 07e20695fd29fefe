"""Warm workers: that a process forked from a zygote is, for an action, what a new process is; and what befalls zygotes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import rules_executorch.builder
from rules_executorch.builder.core.digest import digest_file
from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.probe import why_not
from rules_executorch.builder.execution.processes import Interrupted, Processes
from rules_executorch.builder.execution.sandbox import FIXED_ENVIRONMENT, Command, Completed, execute
from rules_executorch.builder.execution.toolchains import host_toolchains
from rules_executorch.builder.execution.workers import Layer, Workers

PYTHON = host_toolchains()["python"]

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="workers need Linux")


def zygotes(folder: Path) -> list[int]:
    """The processes of all zygotes whose sockets are in `folder`; what waits for an action has its own file system."""
    found, ours = [], os.readlink("/proc/self/ns/mnt")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_one = os.fsencode(folder / "scratch") in (process / "cmdline").read_bytes()
            if is_one and os.readlink(process / "ns" / "mnt") == ours:
                found.append(int(process.name))
    return found


class Bench:
    """Runs modules below one folder as actions, warm and cold, in sandboxes of one mode."""

    def __init__(self, folder: Path, mode: Mode):
        self.folder = folder
        self.mode = mode
        self.processes = Processes()
        self.workers = self.more_workers()
        self.runs = 0

    def more_workers(self, **options) -> Workers:
        """As another build would have them."""
        options = {"idle_seconds": 60, "modules": (), **options}
        return Workers(self.folder / "workers", FIXED_ENVIRONMENT, **options)

    def write(self, packaged: Mapping[str, str] | None = None, **sources: str) -> None:
        """Write modules, by their names or, in folders, by their paths."""
        for name, source in {**(packaged or {}), **sources}.items():
            path = self.folder / "src" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    def files(self) -> dict[str, Path]:
        """All sources, by exec_path."""
        return {f"w/{p.relative_to(self.folder / 'src')}": p for p in (self.folder / "src").rglob("*.py")}

    def command(self, *arguments: str, steps: tuple[str, ...] = ("warm",), roots=("w",), **fields) -> Command:
        """The module `tool`, over all sources; those named warm… are the layer's."""
        files = self.files()
        layer = {path: (file, digest_file(file).hash) for path, file in files.items() if path.startswith("w/warm")}
        return Command(
            (*PYTHON.command, *(f"--import-root={root}" for root in roots), "tool", *arguments),
            fields.pop("environment", {}),
            files,
            {},
            PYTHON.visible,
            layers=(Layer(steps, ("w",), layer),),
            **fields,
        )

    def run(self, command: Command, workers: Workers | None, processes: Processes | None = None) -> Completed:
        self.runs += 1
        return execute(command, self.folder / f"run{self.runs}", processes or self.processes, self.mode, workers)

    def warm(self, *arguments: str, **fields) -> tuple[int, str, str]:
        return _result(self.run(self.command(*arguments, **fields), self.workers))

    def cold(self, *arguments: str, **fields) -> tuple[int, str, str]:
        return _result(self.run(self.command(*arguments, **fields), None))


def _result(completed: Completed) -> tuple[int, str, str]:
    out, err = (path.read_text() for path in completed.printed)
    return completed.status, out, err


@contextlib.contextmanager
def _bench(folder: Path, mode: Mode) -> Iterator[Bench]:
    bench = Bench(folder, mode)
    # PID is the zygote's own where the module was preloaded, and the action's where it was not.
    bench.write(warm="import os\nPID = os.getpid()\nVALUE = 1\n")
    try:
        yield bench
    finally:
        for process in zygotes(bench.workers.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    mode = Mode.FOREST if why_not(Mode.NAMESPACES, tmp_path / "probe") else Mode.NAMESPACES
    with _bench(tmp_path, mode) as bench:
        yield bench


def _ended(process: int) -> bool:
    """Whether a process is no more, or waits to be reaped: with its memory, its files are gone last."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


# What a process can find out about itself, but for what is its own in any case (process numbers, addresses).
_SELF_PORTRAIT = """
import gc, json, os, resource, signal, sys, tempfile, threading
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags), "file": __file__,
    "name": __name__, "environment": dict(os.environ), "folder": os.getcwd(), "umask": os.umask(0o022),
    "temporary": tempfile.gettempdir(), "threads": threading.active_count(), "executable": sys.executable,
    "signals": {n.name: str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)},
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "descriptors": sorted(os.listdir("/proc/self/fd")), "stdin": os.readlink("/proc/self/fd/0"),
    "leader": os.getsid(0) == os.getpgid(0), "collects": gc.isenabled(), "hash": hash("text"),
    "encoding": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering, sys.stderr.line_buffering],
    "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix], "priority": os.nice(0),
    "foreign": [name for name in sys.modules if name.partition(".")[0] in ("execution", "rules_executorch")],
    "finders": [getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path],
    "hooks": len(sys.path_hooks), "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "main": sys.modules["__main__"].__dict__["__name__"],
}))
"""


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
def test_a_worker_finds_what_a_new_process_finds(tmp_path: Path, mode: Mode) -> None:
    if reason := why_not(mode, tmp_path / "probe"):
        pytest.skip(reason)
    with _bench(tmp_path, mode) as bench:
        bench.write(tool=_SELF_PORTRAIT)
        command = bench.command("--x", "y", environment={"WORD": "ü", "OMP_NUM_THREADS": "2"})
        portraits = []
        for workers in (bench.workers, None):
            # In one place, since without namespaces its path is seen.
            completed = execute(command, tmp_path / "run", Processes(), mode, workers)
            status, out, err = _result(completed)
            assert status == 0, err
            portraits.append(json.loads(out))
            (tmp_path / "run").rename(tmp_path / f"ran{len(portraits)}")
        assert zygotes(bench.workers.folder)
        assert portraits[0] == portraits[1]


_ENDINGS = {
    "return": "print('out'); import sys; print('err', file=sys.stderr)",
    "no newline": "print('out', end='')",
    "exit": "import sys; print('out'); sys.exit(3)",
    "exit with a message": "import sys; sys.exit('a message')",
    "exit beyond a byte": "import sys; sys.exit(256 + 7)",
    "exit in haste": "import os; os._exit(9)",
    "exit handlers": "import atexit; atexit.register(print, 'handled'); print('out')",
    "finalizers": "import weakref; x = type('X', (), {})(); f = weakref.finalize(x, print, 'finalized')",
    "logging": "import logging.handlers as h, logging, sys\n"
    "m = h.MemoryHandler(9, target=logging.StreamHandler(sys.stdout)); m.handle(logging.makeLogRecord({'msg': 'kept', 'levelno': 20}))",
    "a thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "a child of multiprocessing": "import multiprocessing as m\n"
    "if __name__ == '__main__': m.get_context('fork').Process(target=print, args=('child',)).start()",
    "an exception": "def f(): raise ValueError('wrong')\nf()",
    "a mistake": "x = (",
    "no module": "import nowhere",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "terminated": "import os; os.kill(os.getpid(), 15)",
    "interrupted": "import os; os.kill(os.getpid(), 2)",
    "aborted": "import os; os.abort()",
    "crashed": "import ctypes; ctypes.string_at(0)",
    "closed output": "import sys, os; os.close(1); print('lost')",
}


def _without_first_frame(text: str) -> str:
    """A traceback without the frame of the launcher's last line, which only a new process has."""
    lines = text.split("\n")
    start = [i for i, line in enumerate(lines) if "python_launcher.py" in line and line.endswith("in <module>")]
    if start:
        end = next(i for i in range(start[0] + 1, len(lines)) if lines[i].startswith("  File"))
        del lines[start[0] : end]
    return "\n".join(lines)



def test_no_action_sees_which_signals_its_build_ignores(bench: Bench) -> None:
    bench.write(
        tool="import signal\n"
        "print([n.name for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    )
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        found = [bench.warm(), bench.cold()]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert found == [(0, "['SIGPIPE', 'SIGXFSZ']\nset()\n", "")] * 2


@pytest.mark.parametrize("ending", _ENDINGS)
def test_a_worker_ends_as_a_new_process_ends(bench: Bench, ending: str) -> None:
    bench.write(tool=_ENDINGS[ending])
    cold, warm = bench.cold(), bench.warm()
    assert zygotes(bench.workers.folder)
    assert warm[:2] == cold[:2]
    assert warm[2] == _without_first_frame(cold[2])


_WHERE = "import warm, json, os; print(json.dumps([warm.PID, warm.VALUE, os.getpid()]))"


def test_a_layer_is_imported_once_for_all_actions_and_builds(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    first, second = json.loads(bench.warm()[1]), json.loads(bench.warm()[1])
    bench.workers = bench.more_workers()
    third = json.loads(bench.warm()[1])
    assert first[0] == second[0] == third[0] in zygotes(bench.workers.folder)
    assert json.loads(bench.cold()[1])[0] not in zygotes(bench.workers.folder)


def test_many_builds_at_once_start_one_zygote(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    command = bench.command()

    def build(number: int) -> int:
        done = execute(command, bench.folder / f"at-once{number}", Processes(), bench.mode, bench.more_workers())
        return json.loads(_result(done)[1])[0]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(build, range(16)))) == 1
    _until(lambda: len(zygotes(bench.workers.folder)) == 2)  # the toolchain's, and the layer's


def test_preloaded_modules_stand_in_the_execution_root(bench: Bench) -> None:
    bench.write(
        {"warmth/__init__": "", "warmth/early": "import sys\ndef fail(): raise ValueError\n"},
        tool="import inspect, json, os, sys, traceback, warmth.early as e, warmth\n"
        "try: e.fail()\nexcept ValueError: text = traceback.format_exc()\n"
        "print(json.dumps([e.__file__, e.__spec__.origin, e.__loader__.path, warmth.__path__, inspect.getsource(e.fail),"
        " os.getcwd(), text]))",
    )
    status, out, err = bench.warm(steps=("warmth.early",))
    assert status == 0, err
    file, origin, path, package, source, root, text = json.loads(out)
    assert file == origin == path == f"{root}/w/warmth/early.py"
    assert package == [f"{root}/w/warmth"]
    assert source.startswith("def fail()")
    assert f'"{root}/w/warmth/early.py", line 2' in text or bench.mode is not Mode.NAMESPACES
    assert (status, out, err) == bench.cold(steps=("warmth.early",)) or bench.mode is not Mode.NAMESPACES


@pytest.mark.parametrize("package", ["warmth", "warm_namespace"])
def test_modules_beside_preloaded_ones_are_imported_from_the_inputs(bench: Bench, package: str) -> None:
    bench.write({f"{package}/{name}": "x = 'late'" for name in ("early", "late")}, tool=f"import {package}.late as l; print(l.x)")
    if package == "warmth":
        bench.write({"warmth/__init__": ""})
    command = bench.command(steps=(f"{package}.early",))
    layer = command.layers[0]
    files = {path: entry for path, entry in layer.files.items() if not path.endswith("late.py")}
    command = dataclasses.replace(command, layers=(dataclasses.replace(layer, files=files),))
    assert _result(bench.run(command, bench.workers)) == (0, "late\n", "")
    assert zygotes(bench.workers.folder)


def test_layers_lie_on_each_other(bench: Bench) -> None:
    bench.write(warm_upper="import warm, os\nPID = os.getpid()", tool="import warm, warm_upper as u; print(warm.PID, u.PID)")
    command = bench.command()
    (layer,) = command.layers
    lower = {path: entry for path, entry in layer.files.items() if path == "w/warm.py"}
    layers = (dataclasses.replace(layer, files=lower), dataclasses.replace(layer, steps=("warm_upper",)))
    _, out, _ = _result(bench.run(dataclasses.replace(command, layers=layers), bench.workers))
    pids = list(map(int, out.split()))
    assert len(set(pids)) == 2 and set(pids) < set(zygotes(bench.workers.folder))
    one_layer = dataclasses.replace(command, layers=layers[:1])
    assert _result(bench.run(one_layer, bench.workers))[1].split()[0] == str(pids[0])


def test_a_step_may_call_a_function(bench: Bench) -> None:
    bench.write(warm="calls = []\ndef up(): calls.append(1)\n", tool="import warm; print(warm.calls)")
    assert bench.warm(steps=("warm:up",))[1] == "[1]\n"


def test_a_process_that_waits_takes_the_steps_once_more(bench: Bench) -> None:
    if bench.mode is not Mode.NAMESPACES:
        pytest.skip("none waits")
    bench.write(warm="calls = []\ndef up(): calls.append(1)\n", tool="import warm; print(len(warm.calls))")
    assert bench.warm(steps=("warm:up",))[1] == "1\n"

    def repeated() -> bool:
        time.sleep(1.2)
        return bench.warm(steps=("warm:up",))[1] == "2\n"

    _until(repeated)


def test_a_step_that_fails_the_second_time_costs_the_process_that_waited(bench: Bench) -> None:
    warm = "import os\nPID = os.getpid()\ncalls = []\ndef up():\n    calls.append(1)\n    assert len(calls) < 2\n"
    bench.write(warm=warm, tool="import os, warm; print(len(warm.calls), warm.PID != os.getpid())")
    assert bench.warm(steps=("warm:up",)) == (0, "1 True\n", "")
    time.sleep(2)
    assert bench.warm(steps=("warm:up",)) == (0, "1 True\n", "")


def test_an_edited_layer_is_another_zygote(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    first = json.loads(bench.warm()[1])
    bench.write(warm="import os\nPID = os.getpid()\nVALUE = 2\n")
    second = json.loads(bench.warm()[1])
    assert (first[1], second[1]) == (1, 2)
    assert second[0] != first[0] and second[0] in zygotes(bench.workers.folder)


def test_only_so_many_layers_are_kept(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    for number in range(7):
        bench.write(warm=f"import os\nPID = os.getpid()\nVALUE = {number}\n")
        assert json.loads(bench.warm()[1])[1] == number
    _until(lambda: len(zygotes(bench.workers.folder)) <= 5)


def test_a_layer_whose_file_is_not_what_was_hashed_is_not_used(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    command = bench.command()
    bench.write(warm="import os\nPID = os.getpid()\nVALUE = 2\n")
    status, out, err = _result(bench.run(command, bench.workers))
    assert status == 0, err
    assert json.loads(out)[0] == json.loads(out)[2]


def test_a_layer_that_fails_leaves_its_failure_to_the_action(bench: Bench) -> None:
    bench.write(warm="raise ValueError('broken')", tool="import warm")
    status, _, err = bench.warm()
    assert status == 1 and err.endswith("ValueError: broken\n")


def test_what_another_import_root_would_give_first_is_not_preloaded(bench: Bench) -> None:
    bench.write({"other/warm": "VALUE = 'other'; PID = 0"}, tool=_WHERE)
    assert json.loads(bench.warm(roots=("w/other", "w"))[1])[:2] == [0, "other"]


def test_variables_that_are_read_at_start_up_need_a_new_process(bench: Bench) -> None:
    bench.write(tool="import warm, os; print(warm.PID == os.getpid(), hash('text'))")
    seeds = {seed: bench.warm(environment={"PYTHONHASHSEED": seed})[1].split() for seed in ("0", "1")}
    assert [cold for cold, _ in seeds.values()] == ["False", "True"]
    assert seeds["0"][1] != seeds["1"][1]


def test_actions_share_no_randomness_and_no_state(bench: Bench) -> None:
    bench.write(tool="import random, warm; print(random.random(), warm.VALUE); warm.VALUE += 1")
    first, second = bench.warm()[1].split(), bench.warm()[1].split()
    assert first[0] != second[0]
    assert first[1] == second[1] == "1"


def _begin(bench: Bench, pool: concurrent.futures.Executor, then: str) -> tuple[concurrent.futures.Future, int, int]:
    """Start an action in a worker and wait until it runs; the processes of its layer's zygote and of itself.

    What the module `tool` does after that it has begun is `then`.
    """
    bench.mode = Mode.FOREST  # in which processes have one number, whoever looks
    bench.write(tool=f"import os, pathlib, sys, time, warm\npathlib.Path('begun').write_text(f'{{warm.PID}} {{os.getpid()}}')\n{then}")
    begun = bench.folder / f"run{bench.runs + 1}" / "root" / "begun"
    future = pool.submit(bench.warm)
    _until(lambda: future.done() or (begun.exists() and begun.read_text()))
    zygote, action = map(int, begun.read_text().split())
    assert zygote != action
    return future, zygote, action


@pytest.mark.parametrize("signalled", ["zygote", "zygote and its own", "action"])
def test_what_is_killed_in_the_middle_costs_time_only(bench: Bench, signalled: str) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future, zygote, action = _begin(bench, pool, "if warm.PID != os.getpid(): time.sleep(60)\nprint('done')")
        above = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
        for process in {"zygote": [zygote], "zygote and its own": [above, zygote], "action": [action]}[signalled]:
            os.kill(process, signal.SIGKILL)
        # An action that is killed has failed, whoever it was; all else is the worker's affair.
        assert future.result(60)[:2] == ((-signal.SIGKILL, "") if signalled == "action" else (0, "done\n"))
    _until(lambda: _ended(action))
    bench.mode = Mode.FOREST
    bench.write(tool=_WHERE)
    assert json.loads(bench.warm()[1])[0] in zygotes(bench.workers.folder)


def test_an_action_in_namespaces_does_not_outlive_its_zygote(bench: Bench) -> None:
    if bench.mode is not Mode.NAMESPACES:
        pytest.skip("no namespaces here")
    bench.write(
        tool="import os, pathlib, time, warm\npathlib.Path('begun').write_text(str(warm.PID))\n"
        "if os.getppid() == 1: time.sleep(60)"
    )
    begun = bench.folder / "run1" / "root" / "begun"
    future = concurrent.futures.ThreadPoolExecutor(1).submit(bench.warm)
    _until(lambda: begun.exists() and begun.read_text())
    zygote = int(begun.read_text())
    others = [process for process in zygotes(bench.workers.folder) if process != zygote]
    os.kill(zygote, signal.SIGKILL)
    _until(lambda: sum(not _ended(process) for process in others) == 1)  # the toolchain's
    bench.processes.stop()
    with pytest.raises(Interrupted):
        future.result(60)


def _waiting(bench: Bench) -> list[int]:
    """The processes of a sandbox in which no action runs yet, as far as this process may look at them."""
    ours, found = os.readlink("/proc/self/ns/mnt"), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(bench.workers.folder / "scratch") in (process / "cmdline").read_bytes():
                if os.readlink(process / "ns" / "mnt") != ours:
                    found.append(int(process.name))
    return found


def test_the_next_action_finds_its_process_waiting(bench: Bench) -> None:
    if bench.mode is not Mode.NAMESPACES:
        pytest.skip("no namespaces here")
    bench.write(tool="import os; print(os.readlink('/proc/self/ns/mnt'))")
    first = bench.warm()[1].strip()
    _until(lambda: _waiting(bench))
    waiting = os.readlink(f"/proc/{max(_waiting(bench))}/ns/mnt")
    assert bench.warm()[1].strip() == waiting != first


def test_a_waiting_process_may_be_killed(bench: Bench) -> None:
    bench.write(tool="print('done')")
    bench.warm()
    for process in _waiting(bench):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert bench.warm()[:2] == (0, "done\n")


def test_a_waiting_process_sees_what_took_the_place_of_a_tool(bench: Bench) -> None:
    tool = bench.folder / "a_tool"
    bench.write(tool=f"print(open({str(tool)!r}).read())")
    for text in ("one", "two"):
        tool.with_suffix(".new").write_text(text)
        tool.with_suffix(".new").replace(tool)
        command = bench.command()
        command = dataclasses.replace(command, visible=(*command.visible, str(tool)))
        assert _result(bench.run(command, bench.workers))[1] == f"{text}\n"


def test_a_layer_outlives_the_zygote_that_it_came_from(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    zygote = json.loads(bench.warm()[1])[0]
    above = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(above, signal.SIGKILL)
    assert json.loads(bench.warm()[1])[0] == zygote


def test_stopping_a_build_ends_what_its_workers_do(bench: Bench) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future, zygote, action = _begin(bench, pool, "time.sleep(60)")
        bench.processes.stop()
        with pytest.raises(Interrupted):
            future.result(60)
    _until(lambda: _ended(action))
    bench.processes = Processes()
    bench.write(tool=_WHERE)
    assert json.loads(bench.warm()[1])[0] == zygote


def test_stopping_a_build_does_not_wait_for_a_zygote_that_is_being_started(bench: Bench) -> None:
    started = bench.folder / "started"
    bench.write(warm=f"import time; open({str(started)!r}, 'w'); time.sleep(60)", tool="")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(bench.warm)
        _until(started.exists)
        bench.processes.stop()
        with pytest.raises(Interrupted):
            future.result(10)


def test_an_action_that_takes_too_long_is_ended(bench: Bench) -> None:
    bench.write(tool="import time; print('begun', flush=True); time.sleep(60)")
    command = bench.command(timeout_seconds=1)
    with pytest.raises(subprocess.TimeoutExpired):
        bench.run(command, bench.workers)
    assert zygotes(bench.workers.folder)


def test_what_an_action_leaves_running_ends_with_it(bench: Bench) -> None:
    left = "import subprocess; p = subprocess.Popen(['/bin/sleep', '60'], start_new_session=True); print(p.pid)"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        status, out, _ = _begin(bench, pool, left)[0].result(60)
    assert status == 0
    _until(lambda: _ended(int(out)))


def test_an_idle_zygote_ends_and_leaves_nothing(bench: Bench) -> None:
    bench.workers = bench.more_workers(idle_seconds=0.5)
    bench.write(tool=_WHERE)
    assert json.loads(bench.warm()[1])[0] in zygotes(bench.workers.folder)
    _until(lambda: not zygotes(bench.workers.folder))
    left = {path.name for path in bench.workers.folder.iterdir() if path.suffix != ".log"}
    assert left == {"lock", "scratch"}
    assert json.loads(bench.warm()[1])[1] == 1


def test_what_killed_zygotes_left_is_removed_by_the_next(bench: Bench) -> None:
    bench.write(tool=_WHERE)
    bench.warm()
    running = zygotes(bench.workers.folder)
    for process in running:
        os.kill(process, signal.SIGKILL)
    # A child that they had just forked may hold a socket a moment longer.
    left = [path for path in bench.workers.folder.iterdir() if path.is_socket()]
    _until(lambda: all(map(_ended, running)) and not any(map(_is_listened_to, left)))
    bench.workers = bench.more_workers(modules=("json",))
    bench.warm()
    sockets = [path for path in bench.workers.folder.iterdir() if path.is_socket()]
    assert len(sockets) == 2


def test_a_zygote_that_is_replaced_takes_none_of_the_other_ones_files_along(bench: Bench) -> None:
    def copies() -> set[Path]:
        return {path for path in bench.workers.folder.iterdir() if path.name.endswith(".files")}

    bench.write(tool=_WHERE)
    bench.warm()
    first = copies()
    # As where a file of the toolchain has changed: the old ones end some time after the new ones were started.
    for path in bench.workers.folder.iterdir():
        if path.is_socket():
            path.unlink()
    bench.warm()
    (own,) = copies() - first
    assert (own / "w/warm.py").is_file()


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def test_a_changed_toolchain_is_a_new_process_once_and_then_another_zygote(bench: Bench) -> None:
    site = bench.folder / "site"
    site.mkdir()
    (site / "thing.py").write_text("import os\nVALUE, PID = 1, os.getpid()\n")
    bench.workers = bench.more_workers(modules=("thing",))
    bench.write(tool="import thing, os; print(thing.VALUE, thing.PID != os.getpid())")

    def run() -> str:
        command = bench.command()
        at = command.argv.index("--")
        argv = (*command.argv[:at], str(site), *command.argv[at:])
        command = dataclasses.replace(command, argv=argv, visible=(*command.visible, str(site)))
        return _result(bench.run(command, bench.workers))[1]

    # A zygote takes a file that has only just been written for one that is being changed.
    assert run() == "1 True\n"
    thing = site / "thing.py"
    times = thing.stat()
    thing.write_text("import os\nVALUE, PID = 2, os.getpid()\n")
    os.utime(thing, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert run() == "2 False\n"
    assert run() == "2 True\n"
    (site / "thing-2.dist-info").mkdir()
    assert run() == "2 True\n"
    assert len([path for path in bench.workers.folder.iterdir() if path.is_socket()]) >= 2


@pytest.mark.parametrize(
    "before", [["nice", "-n", "5"], ["taskset", "-c", "0"], ["unshare", "--user", "--map-root-user", "--mount"]]
)
def test_workers_are_shared_only_by_builds_in_the_same_surroundings(before: list[str]) -> None:
    if not shutil.which(before[0]):
        pytest.skip(f"{before[0]} is not installed")
    package = Path(rules_executorch.builder.__file__).parents[1]
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(package / 'builder')!r})\n"
        "import execution.workers as w; print(w.surroundings())"
    )
    run = [
        subprocess.run([*words, sys.executable, "-c", script], capture_output=True, text=True)
        for words in ([], [], before)
    ]
    if run[2].returncode != 0 or (before[0] == "taskset" and len(os.sched_getaffinity(0)) == 1):
        pytest.skip(f"{before[0]} changes nothing here")
    assert run[0].stdout == run[1].stdout != ""
    assert run[2].stdout != run[0].stdout


def test_a_folder_that_others_can_enter_is_not_used(bench: Bench) -> None:
    bench.workers.folder.mkdir(mode=0o755)
    bench.workers.folder.chmod(0o755)
    bench.write(tool=_WHERE)
    zygote, _, own = json.loads(bench.warm()[1])
    assert zygote == own and not zygotes(bench.workers.folder)


def test_a_long_path_is_no_obstacle(bench: Bench) -> None:
    bench.workers = Workers(bench.folder / ("x" * 200), FIXED_ENVIRONMENT, 60, ())
    bench.write(tool=_WHERE)
    zygote, _, own = json.loads(bench.warm()[1])
    try:
        assert zygote != own
    finally:
        for process in zygotes(bench.workers.folder):
            os.kill(process, signal.SIGKILL)


def test_an_action_cannot_take_all_of_the_memory(bench: Bench) -> None:
    bench.write(
        tool="import resource, os\n"
        "limit, _ = resource.getrlimit(resource.RLIMIT_DATA)\n"
        "print(0 < limit < os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES'))"
    )
    assert bench.warm()[1] == "True\n"
    assert bench.cold()[1] == "False\n", "sanitizers reserve more than there is"
    assert threading.active_count() < 10
