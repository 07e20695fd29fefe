"""`--check_determinism`: runs every action once more, under other conditions, and compares what it makes."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from ..cache.disk import DiskStore
from ..core.action import Action
from ..core.store import ActionResult
from ..core.timeline import span
from ..execution.processes import Interrupted
from ..execution.runner import ActionFailed, Machine, run_again
from .analysed import read_actions
from .console import Console
from .difference import describe_difference
from .perform import open_machine
from .progress import Lines, listening
from .request import Analysed, Request

# What an action made the second time, where that is not what it made before, is kept below the builder's own folder.
KEPT = "second_run"


def check(request: Request, analysed: Analysed, options, console: Console) -> bool:
    """Run all actions of a request, which is up to date, a second time; whether all made the same bytes.

    The second time they run later, in another folder, from a process of their own instead of a warm worker, with
    another hash seed and another number of threads.
    """
    actions = read_actions(request)
    with open_machine(request, analysed.name, options, console) as machine:
        machine.sandboxes.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="again-", dir=machine.sandboxes) as folder:
            with listening(console) as shown, span("execution", "check determinism"):
                elsewhere = _elsewhere(machine, DiskStore(Path(folder)))
                same = _check_all(machine, elsewhere, actions, options.jobs, shown)
    if same:
        console.say(f"{len(actions)} action{'s' * (len(actions) != 1)} made the same bytes twice")
    return same


def _elsewhere(machine: Machine, store: DiskStore) -> Machine:
    """A machine that differs from the other in all that must not matter, and remembers nothing."""
    sandboxes = machine.sandboxes / "another folder, with a longer name"
    return dataclasses.replace(machine, store=store, sandboxes=sandboxes, workers=None, kept=None)


def _check_all(machine: Machine, elsewhere: Machine, actions: Sequence[Action], jobs: int, shown: Lines) -> bool:
    one_at_a_time = threading.Lock()
    shown.expected(len(actions))

    def check_one(action: Action) -> bool:
        with one_at_a_time:
            shown.running(action)
        complaint = failure = None
        with span("action", f"{action.mnemonic} {action.owner} again"):
            try:
                complaint = _compare(machine, elsewhere, action, run_again(elsewhere, _under_other_conditions(action)))
            except ActionFailed as error:
                failure = error
            except Interrupted:
                return False
        with one_at_a_time:
            if failure is not None:
                shown.failed(failure)
            else:
                shown.ended(action)
                if complaint:
                    shown.complain(complaint)
        return not complaint and failure is None

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(check_one, action) for action in actions]
        try:
            return all([future.result() for future in futures])
        except BaseException:
            for future in futures:
                future.cancel()
            elsewhere.processes.stop()
            raise


def _under_other_conditions(action: Action) -> Action:
    threads = 1 if action.resources.cpus > 1 else 2
    varied = {**action.environment, "OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "20240229"}
    return dataclasses.replace(action, environment=varied)


def _compare(machine: Machine, elsewhere: Machine, action: Action, result: ActionResult) -> str | None:
    """What is wrong with what an action made the second time; None if it is what is in the workspace."""
    complaints = []
    for exec_path, output in result.outputs.items():
        before = machine.layout.output(exec_path)
        found = machine.digests.file(before)
        if found.digest == output.digest and found.executable == output.executable:
            continue
        if found.digest == output.digest:
            complaints.append(f"{before} is executable after one of two runs")
            continue
        after = machine.layout.state / KEPT / exec_path
        elsewhere.store.materialize(output.digest, _made_ready(after), output.executable)
        complaints.append(f"{before}\n{after}\n{describe_difference(before, after)}")
    if not complaints:
        return None
    listed = "\n".join(complaints).replace("\n", "\n  ")
    return (
        f"{action.mnemonic} of {action.owner} is not deterministic: its outputs differ when it runs again in another "
        f"folder, with another hash seed and number of threads\n  {listed}"
    )


def _made_ready(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
