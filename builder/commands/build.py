"""`build`: brings targets up to date, and says what was built and where."""

from __future__ import annotations

import contextlib
import os
from collections import namedtuple
from collections.abc import Iterator

from ..execution.ninja import start_ninja, stop, wait_while_idle
from . import exit_codes, watch
from .console import Console
from .request import Analysed, Request, make_request, read_analysed, require_root

# What a build did: whether all succeeded; how many of `analysed.total` actions ran and how many came from the
# cache; the exec_paths of outputs that are missing or out of date, since they, or what they need, failed.
Built = namedtuple("Built", "analysed succeeded ran cached not_built")

# More results than this are counted, not listed.
_LISTED = 20


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    console = Console(color=options.color, progress=not options.noprogress)
    request = new_request(options)
    with workspace_lock(request, console):
        built = build_targets(request, options, console)
    if built.succeeded:
        _list_results(request, built.analysed, console)
    summarize(built, console)
    return exit_codes.SUCCESS if built.succeeded else exit_codes.BUILD_FAILED


def new_request(options) -> Request:
    """What the command line asks for, from the folder that one is in."""
    here = os.getcwd()
    return make_request(require_root(here), here, options.targets, options.config)


def build_targets(request: Request, options, console: Console) -> Built:
    """Bring all that the request's targets need up to date.

    Raises:
        BuildError: the workspace has mistakes, or ninja finds fault with what it was given.
    """
    _remove_leftovers(request)
    changed, sources = watch.changed_files(request.folder)
    analysed = read_analysed(request)
    if analysed is None:
        from .analysis import analyse
        from .perform import changed_in_any_request

        analysed = analyse(request)
        changed, sources = changed_in_any_request(request), None
    if changed or sources is None:
        from .perform import forget_stamps, statuses_of_sources

        forget_stamps(request, analysed, set(changed))
        sources = statuses_of_sources(request)
    ninja_path = os.path.join(request.folder, "build.ninja")
    ninja = start_ninja(request.root, ninja_path, jobs=options.jobs, keep_going=options.keep_going)
    try:
        status, printed = wait_while_idle(ninja)
        if status == 0:
            if changed or not os.path.exists(watch.path(request.folder)):
                from .perform import keep_statuses

                keep_statuses(request, analysed, sources)
            return Built(analysed, True, 0, 0, frozenset())
        from .perform import perform

        return perform(request, analysed, ninja, status, printed, sources, options, console)
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
    actions = f"{total} action{'s' * (total != 1)}"
    if built.succeeded:
        rest = total - built.ran - built.cached
        console.say(f"{actions}: {built.ran} ran, {built.cached} from the cache, {rest} up to date ({console.elapsed()})")
    else:
        failed = console.styled("build failed", "red")
        console.say(f"{failed}: of {actions}, {built.ran} ran, {built.cached} from the cache ({console.elapsed()})")


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


def _list_results(request: Request, analysed: Analysed, console: Console) -> None:
    with_outputs = [(label, outputs) for label, outputs, _, _ in analysed.targets if outputs]
    if len(with_outputs) > _LISTED:
        console.say(f"built {len(with_outputs)} targets in {os.path.join(request.root, 'build-out')}")
        return
    here = os.getcwd()
    for label, outputs in with_outputs:
        console.say(f"{label}")
        for output in outputs:
            console.say(f"  {os.path.relpath(os.path.join(request.root, output), here)}")
