"""`build test`: builds targets, runs those that are tests, and counts them."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections import namedtuple
from collections.abc import Callable

from ..core.action import Action, Artifact, RunSpec
from ..core.label import Label, parse_label
from ..core.timeline import span
from ..execution.processes import Interrupted
from ..execution.runner import ActionFailed, How, Machine, run_action
from . import exit_codes
from .analysed import read_runs
from .build import build_targets, new_request, summarize, workspace_lock
from .built import results
from .console import Console
from .events import Events, recording_events
from .perform import open_machine
from .progress import Lines, listening

# One test target's result. status: "passed", "failed" or "not built"; note: what to say beside it; log: the path of
# its output, relative to the root; text: what to show of that; seconds: how long it took.
Result = namedtuple("Result", "label status note log text seconds")

# What build events call them.
_STATUSES = {"passed": "PASSED", "failed": "FAILED", "not built": "NO_STATUS"}


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    console = Console(color=options.color, progress=options.progress)
    request = new_request(options)
    with recording_events(options, request) as events, workspace_lock(request, console):
        built = build_targets(request, options, console, events)
        if not built.succeeded:
            console.out.write(results(request, built))
        summarize(built, console)
        if not built.succeeded and not options.keep_going:
            events.code = exit_codes.BUILD_FAILED
            return events.code
        labels = [parse_label(label) for label, _, is_test, _ in built.analysed.targets if is_test]
        runs = read_runs(request)
        with open_machine(request, built.analysed.name, options, console) as machine:
            tests = [(label, runs[label]) for label in labels]
            tested = _run_tests(machine, tests, built.not_built, options, console, events)
        events.code = _report(tested, built.succeeded, console)
    return events.code


def _run_tests(
    machine: Machine,
    tests: list[tuple[Label, RunSpec]],
    not_built: frozenset[str],
    options,
    console: Console,
    events: Events,
) -> list[Result]:
    """Run tests, several at once; a line for each as it ends, results in the order of the tests."""
    width = max((len(str(label)) for label, _ in tests), default=0)
    with listening(console) as shown, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        shown.expected(len(tests))
        one_at_a_time = threading.Lock()

        def run(label: Label, spec: RunSpec) -> Result:
            action = test_action(machine, label, spec)

            def about_to_run(action: Action) -> None:
                with one_at_a_time:
                    shown.running(action)

            with span("test", f"Test {label}"):
                result = _run_test(machine, action, label, spec, not_built, options, about_to_run)
            with one_at_a_time:
                shown.ended(action)
                _show(result, width, options, console, shown)
                events.tested(result.label, _STATUSES[result.status], result.log, result.seconds, result.note == "cached")
            return result

        futures = [pool.submit(run, label, spec) for label, spec in tests]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            machine.processes.stop()
            raise
    return [future.result() for future in futures]


def _run_test(
    machine: Machine,
    action: Action,
    label: Label,
    spec: RunSpec,
    not_built: frozenset[str],
    options,
    about_to_run: Callable[[Action], None],
) -> Result:
    began = time.monotonic()

    def result(status: str, note: str, text: str) -> Result:
        return Result(str(label), status, note, log, text, time.monotonic() - began)

    def in_workspace(artifact: Artifact) -> str:
        return os.path.relpath(machine.layout.file(artifact), machine.layout.root)

    log = in_workspace(action.outputs[0])
    if missing := [artifact.exec_path for artifact in spec.runfiles if in_workspace(artifact) in not_built]:
        return result("not built", f"{missing[0]} is missing", "")
    try:
        outcome = run_action(
            machine,
            action,
            use_cache=options.cache_test_results,
            about_to_run=about_to_run,
            timeout_seconds=spec.timeout_seconds,
            log=True,
        )
    except ActionFailed as failure:
        text = f"{failure.printed.rstrip()}\n  to run it again: {failure.reproduce}" if failure.reproduce else ""
        _keep_log(machine, action, failure.printed)
        return result("failed", failure.reason, text)
    except Interrupted:
        return result("failed", "was interrupted", "")
    text = machine.layout.output(action.outputs[0].exec_path).read_text(errors="replace")
    if outcome.reproduce:
        text += f"\n  to run it again: {outcome.reproduce}"
    return result("passed", "" if outcome.how is How.RAN else "cached", text)


def test_action(machine: Machine, label: Label, spec: RunSpec) -> Action:
    """A test as an action: its only output is its log, and there is one only if it passed."""
    repository = label.repo or machine.layout.name
    folder = "/".join(part for part in (repository, "testlogs", label.package, label.name) if part)
    return Action(
        mnemonic="Test",
        toolchain=spec.toolchain,
        argv=spec.argv,
        inputs=spec.runfiles,
        outputs=(Artifact(f"{folder}/test.log"),),
        environment={"TEST_TARGET": str(label), **spec.environment},
        also=spec.also,
        owner=str(label),
    )


def _keep_log(machine: Machine, action: Action, text: str) -> None:
    """Put a failed test's log where a passed test's would be."""
    log = machine.layout.output(action.outputs[0].exec_path)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    log.write_text(text)


def _show(result: Result, width: int, options, console: Console, shown: Lines) -> None:
    style = "green" if result.status == "passed" else "red"
    note = f" ({result.note})" if result.note else ""
    shown.say(f"{result.label:<{width}}  {console.styled(result.status, style)}{note}")
    wanted = options.test_output == "all" or (options.test_output == "errors" and result.status == "failed")
    if wanted and result.text.strip():
        shown.say(result.text.rstrip())
    if result.status == "failed":
        shown.say(f"  log: {result.log}")


def _report(tested: list[Result], built: bool, console: Console) -> int:
    """The closing line, which counts test targets; returns the exit code."""
    passed = sum(result.status == "passed" for result in tested)
    failed = len(tested) - passed
    if not tested:
        console.tell("no test targets were found")
    console.say(console.styled(f"{passed} passed, {failed} failed", "red" if failed or not tested else "green"))
    if not built:
        return exit_codes.BUILD_FAILED
    if not tested:
        return exit_codes.NO_TESTS_FOUND
    return exit_codes.TESTS_FAILED if failed else exit_codes.SUCCESS
