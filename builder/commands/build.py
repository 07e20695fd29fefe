"""`build`: brings targets up to date, and says what was built and where."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ..core.timeline import span
from ..execution.ninja import has_nothing_to_do, start_ninja, stop
from . import exit_codes, watch
from .built import Built, keep_statuses, results
from .console import Console
from .events import Events, recording_events
from .request import Analysed, Request, make_request, read_analysed, require_root
from .unchanged import closing_line, identity_of


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    console = Console(color=options.color, progress=options.progress)
    request = new_request(options)
    with recording_events(options, request) as events:
        with workspace_lock(request, console):
            built = build_targets(request, options, console, events)
            same = _check_determinism(built, request, options, console)
        console.out.write(results(request, built, keep_going=options.keep_going))
        summarize(built, console)
        events.code = exit_codes.SUCCESS if built.succeeded and same else exit_codes.BUILD_FAILED
    return events.code


def _check_determinism(built: Built, request: Request, options, console: Console) -> bool:
    """Whether all actions are deterministic, if that is asked and can be found out."""
    if not (options.check_determinism and built.succeeded):
        return True
    from .determinism import check

    return check(request, built.analysed, options, console)


def new_request(options) -> Request:
    """What the command line asks for, from the folder that one is in."""
    here = os.getcwd()
    return make_request(require_root(here), here, options.targets, options.config, options.sections)


def build_targets(request: Request, options, console: Console, events: Events) -> Built:
    """Bring all that the request's targets need up to date.

    Raises:
        BuildError: the workspace has mistakes, or ninja finds fault with what it was given.
    """
    built = _build(request, options, console, events)
    for label, outputs, _, _ in built.analysed.targets:
        # Without --keep_going nobody knows how far the others came.
        known = built.succeeded or options.keep_going
        events.completed(label, outputs, known and not built.not_built.intersection(outputs))
    return built


def _build(request: Request, options, console: Console, events: Events) -> Built:
    _remove_leftovers(request)
    with span("check", "look for changes"):
        watched = watch.read(request.folder)
        if watched and watched.identity != identity_of(*request[:4]):
            watched = None
        changed, sources = watch.changed_files(watched) if watched else ([], None)
        nothing_to_do = bool(watched and watched.certain and not changed)
        analysed = read_analysed(request, trusted=nothing_to_do)
    if nothing_to_do and analysed is not None:
        events.expanded(request, [label for label, *_ in analysed.targets])
        return Built(analysed, True, 0, 0, frozenset())
    if analysed is None:
        from .analysis import analyse

        analysed, watched = analyse(request), None
    events.expanded(request, [label for label, *_ in analysed.targets])
    stale: list[int] = []
    unseen = bool(changed) or watched is None  # by ninja
    if unseen:
        stale, sources = _forget_stamps(request, analysed, watched, changed, sources)
    if not stale and _all_is_done(request, options):
        keep_statuses(request, analysed, sources, _outputs_of(request, analysed, watched), console)
        return Built(analysed, True, 0, 0, frozenset())
    if not unseen:
        # What it asks for may be another request's doing.
        stale, sources = _forget_stamps(request, analysed, watched, changed, sources)
    from .perform import perform

    return perform(request, analysed, sources, stale, options, console, events)


def _forget_stamps(
    request: Request, analysed: Analysed, watched: watch.Watched | None, changed: list[str], sources
) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Take the stamps of what may be out of date; the numbers of these actions, and the statuses of all sources."""
    from .analysed import statuses_of_sources
    from .stamps import forget_stamps

    with span("check", "forget stamps"):
        stale = forget_stamps(request, analysed, set(changed), compare_all=watched is None)
        return stale, sources if watched else statuses_of_sources(request, analysed)


def _outputs_of(request: Request, analysed: Analysed, watched: watch.Watched | None) -> list[str]:
    if watched is not None:
        return watched.outputs
    from .analysed import outputs_of

    return outputs_of(request, analysed)


def _all_is_done(request: Request, options) -> bool:
    """Whether ninja finds every stamp to be there, and newer than what it stands on."""
    path = os.path.join(request.folder, "build.ninja")
    ninja = start_ninja(request.root, path, jobs=options.jobs, keep_going=options.keep_going)
    try:
        with span("check", "wait for ninja"):
            return has_nothing_to_do(ninja)
    finally:
        stop(ninja)


def _remove_leftovers(request: Request) -> None:
    """Remove what a build that was killed left on its way to the outputs."""
    staging = os.path.join(request.state, "staging")
    if os.path.isdir(staging) and os.listdir(staging):
        import shutil

        shutil.rmtree(staging, ignore_errors=True)


def summarize(built: Built, console: Console) -> None:
    """The closing line: how many actions went which way."""
    total = built.analysed.total
    if built.succeeded:
        console.say(closing_line(total, built.ran, built.cached, console.seconds()))
    else:
        failed = console.styled("build failed", "red")
        actions = f"{total} action{'s' * (total != 1)}"
        ran = f"{built.ran} ran, {built.cached} from the cache"
        console.say(f"{failed}: of {actions}, {ran} ({console.seconds():.2f} s)")


@contextlib.contextmanager
def workspace_lock(request: Request, console: Console) -> Iterator[None]:
    """One build at a time in a workspace; a second one waits, and says so."""
    import fcntl

    os.makedirs(request.state, exist_ok=True)
    with open(os.path.join(request.state, "lock"), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.tell("waiting for another build in this workspace to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
