"""The part of a build that does something: runs what ninja asks for. Not loaded when nothing changed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..cache.disk import DiskActionCache, DiskStore
from ..cache.eviction import evict_if_needed, in_use, size_limit
from ..cache.file_digests import FileDigests
from ..core.action import Action
from ..core.digest import digest_bytes
from ..core.diagnostics import BuildError, Diagnostic, UsageError
from ..core.timeline import span
from ..execution.isolation import Mode, lazily
from ..execution.layout import Layout
from ..execution.ninja import start_ninja, stop
from ..execution.probe import find_mode
from ..execution.processes import Processes
from ..execution.reuse import reuse_all
from ..execution.runner import How, Machine
from ..execution.sandbox import FIXED_ENVIRONMENT
from ..execution.scheduler import serve
from ..execution.toolchains import host_toolchains
from ..execution.workers import Workers
from .analysed import outputs_of, read_actions
from .built import Built, keep_statuses
from .console import Console
from .events import Events
from .progress import Listeners, listening
from .request import Analysed, Request

CACHE_VARIABLE = "RULES_EXECUTORCH_CACHE"


@contextlib.contextmanager
def open_machine(request: Request, name: str, options, console: Console) -> Iterator[Machine]:
    """What running actions needs, for the workspace `name`; sandboxes that earlier commands left are removed.

    In the end the cache is brought below its limit.

    Raises:
        BuildError: the cache's folder cannot be used.
    """
    layout = Layout(Path(request.root), name)
    cache = cache_folder(options)
    with contextlib.ExitStack() as stack:
        try:
            limit = size_limit()
            store = DiskStore(cache)
            results = DiskActionCache(cache, store)
            stack.enter_context(in_use(cache))
        except ValueError as error:
            raise UsageError(Diagnostic(str(error))) from error
        except OSError as error:
            raise BuildError(
                Diagnostic(
                    f"the cache {cache} cannot be used: {error.strerror or error}",
                    remedy=f"name a folder that can be written with --disk_cache=DIR or {CACHE_VARIABLE}",
                )
            ) from error
        digests = stack.enter_context(contextlib.closing(FileDigests(cache / "digests.sqlite")))
        # One folder per workspace, since its lock says that nobody else uses it now.
        sandboxes = cache / "sandboxes" / f"{name}-{digest_bytes(os.fsencode(request.root)).hash[:12]}"
        _remove_older(sandboxes, console.began)
        mode = lazily(lambda: _find_mode(options, sandboxes, layout.machine, console))
        workers = Workers(_workers_folder(), FIXED_ENVIRONMENT) if options.workers else None
        yield Machine(
            layout,
            host_toolchains(layout.machine),
            store,
            results,
            digests,
            Processes(),
            sandboxes,
            mode,
            workers,
            keep_sandboxes=options.sandbox_debug,
            kept=cache / "kept",
        )
    evict_if_needed(cache, limit, store.written)


def _workers_folder() -> Path:
    """Where this user's warm workers are found, by all builds."""
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime, "rules_executorch")
    import platformdirs

    return Path(platformdirs.user_cache_dir("rules_executorch", appauthor=False), "workers")


def _find_mode(options, sandboxes: Path, memory: Path, console: Console) -> Mode:
    """How this build keeps actions to what they declare; said once, when the first one is about to run."""
    mode = find_mode(Mode(options.sandbox) if options.sandbox else None, sandboxes, memory)
    if mode is not Mode.NAMESPACES or options.sandbox:
        why = "" if options.sandbox else ", since this machine allows no better"
        console.tell(f"sandbox: {mode.value} ({mode.description}{why})")
    return mode


def _remove_older(sandboxes: Path, moment: float) -> None:
    """Remove what an earlier command left for the user to look into, or did not come to remove."""
    for folder in sandboxes.glob("*"):
        if folder.stat().st_mtime < moment:
            shutil.rmtree(folder, ignore_errors=True)


def cache_folder(options) -> Path:
    """The folder of the cache: as the command line says, else the environment, else where the system keeps such."""
    if chosen := options.disk_cache or os.environ.get(CACHE_VARIABLE):
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    import platformdirs

    return Path(platformdirs.user_cache_dir("rules_executorch", appauthor=False))


def perform(
    request: Request,
    analysed: Analysed,
    sources: dict[str, tuple[int, ...]],
    stale: Sequence[int],
    options,
    console: Console,
    events: Events,
) -> Built:
    """Bring up to date the actions with the numbers `stale`, which have no stamps, and others for which ninja asks.

    What is known already is used first, so that ninja asks for those only that have to run.
    """
    with (
        open_machine(request, analysed.name, options, console) as machine,
        listening(console, explain=options.explain) as shown,
        span("execution", "execution"),
    ):
        actions, listeners = read_actions(request), Listeners(shown, events)
        machine = dataclasses.replace(machine, readers=actions.readers)
        with span("cache", "look up all"):
            known = reuse_all(machine, map(actions.__getitem__, stale), actions.producers, listeners)
        path = os.path.join(request.folder, "build.ninja")
        ninja = start_ninja(request.root, path, jobs=options.jobs, keep_going=options.keep_going)
        try:
            status, tally, printed = serve(ninja, actions.defined, machine, listeners, done=known.total())
        finally:
            stop(ninja)
    not_built = _not_built(machine.layout, actions, [failure.action for failure in tally.failures])
    keep_statuses(request, analysed, sources, outputs_of(request, analysed), console, succeeded=status == 0)
    if status != 0 and not not_built:
        raise BuildError(_complaint(printed))
    cached = tally.counts[How.CACHED] + known[How.CACHED]
    return Built(analysed, status == 0, tally.counts[How.RAN], cached, not_built)


def _not_built(layout: Layout, actions: Sequence[Action], failed: Sequence[Action]) -> frozenset[str]:
    """The outputs of the failed actions and of all that need them, relative to the root.

    `actions` come after what they need.
    """
    if not failed:
        return frozenset()
    lost = {output.exec_path for action in failed for output in action.outputs}
    for action in actions:
        if any(artifact.source is None and artifact.exec_path in lost for artifact in action.inputs):
            lost.update(output.exec_path for output in action.outputs)
    return frozenset(map(layout.relative_output, lost))


def _complaint(printed: bytes) -> Diagnostic:
    """What ninja itself found wrong: almost always a file that went missing."""
    lines = [line for line in printed.decode(errors="replace").splitlines() if line.startswith("ninja: ")]
    errors = [line.removeprefix("ninja: error: ") for line in lines if not line.startswith("ninja: Entering")]
    return Diagnostic(
        "ninja could not build: " + ("; ".join(errors) or "it ended without saying why"),
        remedy="if a file is missing, restore it or take it out of the BUILD file that names it",
    )
