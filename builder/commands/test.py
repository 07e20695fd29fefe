"""`build test`: builds targets, runs those that are tests, and counts them."""

from __future__ import annotations

import concurrent.futures
import os
from collections import namedtuple

from ..core.action import Action, Artifact, RunSpec
from ..core.label import Label, parse_label
from ..execution.processes import Interrupted
from ..execution.runner import ActionFailed, How, Machine, run_action
from . import exit_codes
from .analysis import read_runs
from .build import build_targets, new_request, summarize, workspace_lock
from .console import Console
from .perform import open_machine

# One test target's result. status: "passed", "failed" or "not built"; note: what to say beside it.
Result = namedtuple("Result", "label status note log text")


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    console = Console(color=options.color, progress=options.progress)
    request = new_request(options)
    with workspace_lock(request, console):
        built = build_targets(request, options, console)
        summarize(built, console)
        if not built.succeeded and not options.keep_going:
            return exit_codes.BUILD_FAILED
        labels = [parse_label(label) for label, _, is_test, _ in built.analysed.targets if is_test]
        runs = read_runs(request)
        machine = open_machine(request, built.analysed.name, options, console)
        try:
            results = _run_tests(machine, [(label, runs[label]) for label in labels], built.not_built, options, console)
        finally:
            machine.digests.close()
    return _report(results, built.succeeded, console)


def _run_tests(
    machine: Machine, tests: list[tuple[Label, RunSpec]], not_built: frozenset[str], options, console: Console
) -> list[Result]:
    """Run tests, several at once; a line for each as it ends, results in the order of the tests."""
    width = max((len(str(label)) for label, _ in tests), default=0)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(_run_test, machine, label, spec, not_built, options) for label, spec in tests]
        try:
            for future in concurrent.futures.as_completed(futures):
                _show(future.result(), width, options, console)
        except BaseException:
            for future in futures:
                future.cancel()
            machine.processes.stop()
            raise
    return [future.result() for future in futures]


def _run_test(machine: Machine, label: Label, spec: RunSpec, not_built: frozenset[str], options) -> Result:
    action = test_action(machine, label, spec)
    log = os.path.relpath(machine.layout.output(action.outputs[0].exec_path), machine.layout.root)
    if missing := [artifact.exec_path for artifact in spec.runfiles if artifact.exec_path in not_built]:
        return Result(str(label), "not built", f"{missing[0]} is missing", log, "")
    try:
        outcome = run_action(
            machine,
            action,
            use_cache=options.cache_test_results,
            timeout_seconds=spec.timeout_seconds,
            log=True,
        )
    except ActionFailed as failure:
        text = f"{failure.printed.rstrip()}\n  to run it again: {failure.reproduce}" if failure.reproduce else ""
        _keep_log(machine, action, failure.printed)
        return Result(str(label), "failed", failure.reason, log, text)
    except Interrupted:
        return Result(str(label), "failed", "was interrupted", log, "")
    text = machine.layout.output(action.outputs[0].exec_path).read_text(errors="replace")
    return Result(str(label), "passed", "" if outcome.how is How.RAN else "cached", log, text)


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


def _show(result: Result, width: int, options, console: Console) -> None:
    style = "green" if result.status == "passed" else "red"
    note = f" ({result.note})" if result.note else ""
    console.say(f"{result.label:<{width}}  {console.styled(result.status, style)}{note}")
    wanted = options.test_output == "all" or (options.test_output == "errors" and result.status == "failed")
    if wanted and result.text.strip():
        console.say(result.text.rstrip())
    if result.status == "failed":
        console.say(f"  log: {result.log}")


def _report(results: list[Result], built: bool, console: Console) -> int:
    """The closing line, which counts test targets; returns the exit code."""
    passed = sum(result.status == "passed" for result in results)
    failed = len(results) - passed
    if not results:
        console.tell("no test targets were found")
    console.say(console.styled(f"{passed} passed, {failed} failed", "red" if failed or not results else "green"))
    if not built:
        return exit_codes.BUILD_FAILED
    if not results:
        return exit_codes.NO_TESTS_FOUND
    return exit_codes.TESTS_FAILED if failed else exit_codes.SUCCESS
