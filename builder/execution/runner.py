"""Runs one action: digests → key → what is there already → action cache → sandbox → store → outputs."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..cache.disk import DiskActionCache, DiskStore
from ..cache.file_digests import FileDigests
from ..cache.keys import Change, InputFile, explain, key_of_parts, key_parts
from ..core.action import Action, Artifact, Toolchain
from ..core.diagnostics import BuildError
from ..core.store import ActionResult, OutputFile
from ..core.timeline import span
from .isolation import Mode
from .kept import KEPT, keep, kept_folder
from .layout import Layout
from .leftovers import Leftovers, find_output, leftovers, refused
from .outputs import are_there, link_trees_beside, publish
from .processes import Processes
from .python_imports import Statement, imported_in_file, reachable
from .records import Record, read_record, set_stamp, write_record
from .sandbox import Command, Completed, execute, printed_files, reproduction
from .toolchains import require
from .workers import Layer, Workers

# Of more undeclared outputs than this, the rest is counted.
_SHOWN = 5


class How(Enum):
    """Where an action's outputs came from."""

    RAN = "ran"
    CACHED = "from the cache"
    UP_TO_DATE = "up to date"


@dataclass(frozen=True)
class Outcome:
    """A successful action: where its outputs came from, what it printed, and what changed since its last run.

    `reproduce` is a shell line that runs it again, if its sandbox was kept.
    """

    how: How
    printed: str = ""
    changes: tuple[Change, ...] | None = None
    reproduce: str | None = None


class ActionFailed(Exception):
    """An action did not succeed. `printed` is its own output, `reproduce` a shell line that runs it again."""

    def __init__(self, action: Action, reason: str, printed: str = "", reproduce: str | None = None):
        super().__init__(f"{action.mnemonic} of {action.owner or action.outputs[0].exec_path} {reason}")
        self.action = action
        self.reason = reason
        self.printed = printed
        self.reproduce = reproduce


@dataclass(frozen=True)
class Machine:
    """What running needs besides the action.

    `sandboxes` is the folder in which actions get theirs. It is outside of the workspace, so that an
    action that looks for something in the folders above its own does not find the workspace.
    `mode` finds out, when first asked, how they are kept to what they declare. `workers`, if any, run
    those that say what can be preloaded for them. `kept` is where is kept what actions keep for later ones.
    `readers` tells which actions read what an action makes, all known by their first outputs.
    """

    layout: Layout
    toolchains: Mapping[str, Toolchain]
    store: DiskStore
    results: DiskActionCache
    digests: FileDigests
    processes: Processes
    sandboxes: Path
    mode: Callable[[], Mode]
    workers: Workers | None = None
    keep_sandboxes: bool = False
    kept: Path | None = None
    readers: Callable[[str], Iterable[str]] = lambda output: ()

    def identities(self, action: Action) -> dict[str, str]:
        """What enters the action's key, by toolchain."""
        return {name: self.toolchains[name].identity for name in (action.toolchain, *action.also) if name}


def run_action(
    machine: Machine,
    action: Action,
    *,
    use_cache: bool = True,
    about_to_run: Callable[[Action], None] = lambda action: None,
    timeout_seconds: float | None = None,
    log: bool = False,
) -> Outcome:
    """Bring the outputs of `action` up to date. Its inputs are there already.

    `use_cache` False: run it whatever is known, and still record the result. `about_to_run` is
    called when it turns out that it has to run. `log`: its only output is all that it prints, which
    is worth having, but not remembering, even if an input changes meanwhile.

    Raises:
        ActionFailed: it failed; nothing of what was there has changed.
        Interrupted: the build is being stopped.
    """
    reduced, files = _read_inputs(machine, action)
    parts = list(key_parts(reduced, files, machine.identities(action)))
    try:
        outcome = None
        if use_cache:
            with span("cache", "look up"):
                outcome = _reuse(machine, action, parts)
        if outcome is None:
            about_to_run(action)
            result, reproduce = _run(machine, reduced, files, timeout_seconds, log)
            with span("outputs", "publish outputs"):
                outcome = _keep(machine, action, parts, result, _changed(machine, reduced, files), log)
            outcome = dataclasses.replace(outcome, reproduce=reproduce)
        return outcome
    except OSError as error:
        raise ActionFailed(action, f"could not be finished: {error}") from error


def reuse_action(machine: Machine, action: Action, sources: dict[Artifact, InputFile]) -> Outcome | None:
    """Bring the outputs of `action` up to date, if that takes no running; else nothing has changed.

    `sources` are what is known of sources, and are added to.
    """
    try:
        reduced, files = _read_inputs(machine, action, sources)
        return _reuse(machine, action, list(key_parts(reduced, files, machine.identities(action))))
    except (OSError, ActionFailed):
        return None  # who has to run it will tell


def run_again(machine: Machine, action: Action) -> ActionResult:
    """Run `action`, whose inputs are there, whatever is known of it; its outputs are in the machine's store only.

    Raises:
        ActionFailed: it failed.
        Interrupted: the build is being stopped.
    """
    reduced, files = _read_inputs(machine, action)
    return _run(machine, reduced, files, None, False)[0]


def _read_inputs(
    machine: Machine, action: Action, sources: dict[Artifact, InputFile] | None = None
) -> tuple[Action, dict[str, InputFile]]:
    """The action with those inputs only that it needs this time, and their digests.

    `sources`, if given, are used as they are known, and what was not known yet is added.
    """
    sources = {} if sources is None else sources
    try:
        with span("digests", "digest inputs"):
            inputs = _needed_inputs(machine, action, sources)
            files = _digest(machine, inputs, sources)
    except OSError as error:
        raise ActionFailed(action, f"cannot read its input: {error}") from error
    return dataclasses.replace(action, inputs=inputs, imports=None), files


def _reuse(machine: Machine, action: Action, parts: list[tuple[str, str]]) -> Outcome | None:
    """Make do with what the workspace or the cache has, if it has it."""
    before, changes = _last_run(machine, action, parts)
    if before and not changes and are_there(machine.layout, machine.digests, before.result):
        set_stamp(machine.layout, action, before.changed_ns)
        return Outcome(How.UP_TO_DATE)
    result = machine.results.get(key_of_parts(parts))
    if result is None or set(result.outputs) != {artifact.exec_path for artifact in action.outputs}:
        return None
    if not _publish(machine, action, result):
        return None
    write_record(machine.layout, action, parts, result, before, machine.readers)
    return Outcome(How.CACHED, _printed(machine, result), changes)


def _keep(
    machine: Machine, action: Action, parts: list[tuple[str, str]], result: ActionResult, changed: list[str], log: bool
) -> Outcome:
    """Record and publish what a run made, unless inputs have `changed` meanwhile."""
    before, changes = _last_run(machine, action, parts)
    if changed and not log:
        raise ActionFailed(action, f"is out of date already: {', '.join(changed)} changed while it ran; build again")
    if not changed:
        machine.results.put(key_of_parts(parts), result)
    if not _publish(machine, action, result):
        raise ActionFailed(action, "made outputs that the store lost at once: the disk may be failing")
    if not changed:
        write_record(machine.layout, action, parts, result, before, machine.readers)
    return Outcome(How.RAN, _printed(machine, result), changes)


def _last_run(
    machine: Machine, action: Action, parts: list[tuple[str, str]]
) -> tuple[Record | None, tuple[Change, ...] | None]:
    """The record of the last run, if any, and what has changed since."""
    before = read_record(machine.layout, action)
    return before, tuple(explain(before.parts, parts)) if before else None


def command_of(
    toolchains: Mapping[str, Toolchain],
    owner: str,
    toolchain: str,
    also: Sequence[str],
    argv: Sequence[str],
    environment: Mapping[str, str],
    files: Mapping[str, Path],
    *,
    outputs: tuple[str, ...] = (),
    timeout_seconds: float | None = None,
    log: str | None = None,
    layers: tuple[Layer, ...] = (),
) -> Command:
    """A command in full. Raises BuildError where this machine lacks a toolchain that it needs."""
    trees: dict[str, Path] = {}
    visible: dict[str, None] = {}
    for name in dict.fromkeys(([toolchain] if toolchain else []) + list(also)):
        require(toolchains[name], owner)
        trees.update(toolchains[name].trees)
        visible.update(dict.fromkeys(toolchains[name].visible))
    prefix = toolchains[toolchain].command if toolchain else ()
    return Command((*prefix, *argv), environment, files, trees, tuple(visible), outputs, timeout_seconds, log, layers)


def _needed_inputs(
    machine: Machine, action: Action, sources: dict[Artifact, InputFile]
) -> tuple[Artifact, ...]:
    """The inputs without the Python sources that the action's imports do not reach."""
    if action.imports is None:
        return action.inputs
    known = _digest(machine, action.imports.sources, sources)
    paths = {artifact.exec_path: machine.layout.file(artifact) for artifact in action.imports.sources}

    def imported(exec_path: str) -> list[Statement]:
        return imported_in_file(paths[exec_path], known[exec_path].digest, machine.layout.imports)

    unused = paths.keys() - reachable(action.imports, imported)
    return tuple(artifact for artifact in action.inputs if artifact.exec_path not in unused)


def _digest(
    machine: Machine, inputs: Sequence[Artifact], sources: dict[Artifact, InputFile]
) -> dict[str, InputFile]:
    files = {}
    for artifact in inputs:
        found = sources.get(artifact)
        if found is None:
            found = machine.digests.file(machine.layout.path(artifact))
            if artifact.source is not None:
                sources[artifact] = found
        files[artifact.exec_path] = found
    return files


def _changed(machine: Machine, action: Action, files: Mapping[str, InputFile]) -> list[str]:
    """The inputs that are no longer what they were when the key was made."""

    def same(artifact: Artifact) -> bool:
        try:
            return machine.digests.file(machine.layout.file(artifact)) == files[artifact.exec_path]
        except OSError:
            return False

    return [artifact.exec_path for artifact in action.inputs if not same(artifact)]


def _run(
    machine: Machine, action: Action, files: Mapping[str, InputFile], timeout_seconds: float | None, log: bool
) -> tuple[ActionResult, str | None]:
    """Run the action in a sandbox and store what it made. A failure leaves the sandbox, to be looked into.

    Returns what was stored, and how to run it again if the sandbox is kept.
    """
    paths = {artifact.exec_path: machine.layout.file(artifact) for artifact in action.inputs}
    threads = {"OMP_NUM_THREADS": str(action.resources.cpus)}
    try:
        command = command_of(
            machine.toolchains,
            action.owner,
            action.toolchain,
            action.also,
            action.argv,
            {**threads, **action.environment},
            paths,
            outputs=tuple(artifact.exec_path for artifact in action.outputs),
            timeout_seconds=timeout_seconds,
            log=action.outputs[0].exec_path if log else None,
            layers=_layers(machine, action, files),
        )
    except BuildError as error:
        raise ActionFailed(action, str(error)) from error
    kept = kept_folder(machine.kept, action, files, machine.identities(action)) if machine.kept else None
    if kept:
        command = dataclasses.replace(command, trees={**command.trees, KEPT: kept})
    machine.sandboxes.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{action.mnemonic}-", dir=machine.sandboxes))
    try:
        result = _run_in(machine, action, command, folder)
    except subprocess.TimeoutExpired as error:
        reason = f"took longer than {error.timeout:g} s"
        raise ActionFailed(action, reason, _text_of(command, folder), reproduction(folder)) from error
    except OSError as error:
        raise ActionFailed(action, f"could not be run: {error}", "", reproduction(folder)) from error
    if kept:
        keep(folder / "home" / KEPT, kept)
    if machine.keep_sandboxes:
        return result, reproduction(folder)
    # Nobody waits for that: it takes as long as a short action.
    threading.Thread(target=shutil.rmtree, args=(folder, True), name="remove a sandbox").start()
    return result, None


def _layers(machine: Machine, action: Action, files: Mapping[str, InputFile]) -> tuple[Layer, ...]:
    """What a worker may have preloaded: up to the first preload of which the action does not need all."""
    layers = []
    for preload in action.preloads:
        if not all(artifact.exec_path in files for artifact in preload.inputs):
            break
        contents = {a.exec_path: (machine.layout.file(a), files[a.exec_path].digest.hash) for a in preload.inputs}
        layers.append(Layer(preload.steps, preload.import_roots, contents))
    return tuple(layers)


def _run_in(machine: Machine, action: Action, command: Command, folder: Path) -> ActionResult:
    mode = machine.mode()
    with span("run", "run in the sandbox"):
        completed = execute(command, folder, machine.processes, mode, machine.workers)
    copied = mode is not Mode.NAMESPACES
    left = leftovers(completed.root, command.files, command.outputs, command.visible, copied=copied)
    if reason := _fault(completed, left, command, folder):
        # Takes long to load, and most actions succeed.
        from .undeclared import diagnose, named_in

        text = _text_of(command, folder)
        mistakes = [diagnose(path, program, action, machine.layout) for program, path in refused(folder)]
        mistakes = mistakes or named_in(text, action, command, machine.layout)
        told = "".join(f"{diagnostic.render()}\n" for diagnostic in mistakes)
        raise ActionFailed(action, reason, text + told, reproduction(folder))
    if left.undeclared and not command.log:
        with open(completed.printed[-1], "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(_note_on(left.undeclared, action))
    outputs = {}
    for path in command.outputs:
        made = find_output(completed.root, path, command.files)
        assert made is not None  # _fault has looked
        with span("outputs", f"store {path}"):
            outputs[path] = OutputFile(machine.store.put(made), executable=bool(made.stat().st_mode & 0o100))
    printed = [machine.store.put(file) if file.stat().st_size else None for file in completed.printed]
    return ActionResult(outputs, *printed, hermetic=mode is not Mode.FOREST)


def _fault(completed: Completed, left: Leftovers, command: Command, folder: Path) -> str | None:
    """What is wrong with how an action ended, or with what it did; None for a success."""
    if completed.status < 0:
        return f"was ended by signal {-completed.status}"
    if completed.status > 0:
        return f"failed with exit status {completed.status}"
    if paths := [str(path) for _, path in refused(folder)]:
        return f"opened what it does not declare: {', '.join(paths)}"
    if left.changed:
        return f"changed its input{'s' * (len(left.changed) > 1)} {', '.join(left.changed)}"
    if missing := [path for path in command.outputs if find_output(completed.root, path, command.files) is None]:
        return f"succeeded, but did not make its output{'s' * (len(missing) > 1)} {', '.join(missing)}"
    return None


def _note_on(undeclared: Sequence[str], action: Action) -> str:
    shown = ", ".join(undeclared[:_SHOWN]) + (f" and {len(undeclared) - _SHOWN} more" if undeclared[_SHOWN:] else "")
    return (
        f"note: {action.mnemonic} of {action.owner} made {shown}, which it does not declare: lost. Declare it as an "
        "output (`outs`), or make it below $TMPDIR.\n"
    )


def _publish(machine: Machine, action: Action, result: ActionResult) -> bool:
    if not publish(machine.layout, machine.store, machine.digests, result):
        return False
    trees = {name: path for tool in action.also for name, path in machine.toolchains[tool].trees.items()}
    for path, output in result.outputs.items():
        if output.executable and trees:
            link_trees_beside(machine.layout.output(path), trees)
    return True


def _text_of(command: Command, folder: Path) -> str:
    texts = []
    for file in printed_files(command, folder):
        with contextlib.suppress(OSError):
            texts.append(file.read_text(errors="replace"))
    return "".join(texts)


def _printed(machine: Machine, result: ActionResult) -> str:
    digests = [digest for digest in (result.stdout, result.stderr) if digest]
    return b"".join(machine.store.read(digest) or b"" for digest in digests).decode(errors="replace")
