"""The command `build`: finds the verb, runs it, and turns what went wrong into a message and an exit code."""

from __future__ import annotations

import errno
import os
import sys

from .commands import exit_codes, unchanged
from .commands.words import CommandLineError


# What is wrong with a machine or a disk, and no mistake of ours; and what its owner can do.
_OF_THE_MACHINE = {
    errno.EACCES: "build as a user who may write there, or take the workspace and the cache elsewhere",
    errno.EDQUOT: "make room for this user, and build again",
    errno.EIO: "have the disk looked at",
    errno.EMFILE: "allow more open files (ulimit -n), or build with fewer --jobs",
    errno.ENOMEM: "make memory free, or build with fewer --jobs",
    errno.ENOSPC: "make room on the disk, and build again",
    errno.EPERM: "build as a user who may do that, or take the workspace and the cache elsewhere",
    errno.EROFS: "mount the disk writable, or take the workspace and the cache elsewhere",
}

def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (see exit_codes)."""
    if arguments is None:
        arguments = sys.argv[1:]
    if unchanged.answer(arguments):
        return exit_codes.SUCCESS
    return _main(arguments)


def _main(arguments: list[str]) -> int:
    import signal

    from .commands.options import parse

    # What ends a process politely is handled as Ctrl-C is: actions are stopped, nothing is left half-written.
    signal.signal(signal.SIGTERM, _interrupt)
    started_in = os.getcwd()
    try:
        options = parse(arguments)
        return _run(options, started_in)
    except CommandLineError as error:
        print(error, file=sys.stderr)
        return exit_codes.COMMAND_LINE_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # Who was reading has seen enough; python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.BUILD_FAILED
    except Exception as error:  # noqa: BLE001 - the last resort
        return _report(error)
    finally:
        os.chdir(started_in)


def _run(options, started_in: str) -> int:
    if options.directory:
        try:
            os.chdir(options.directory)
        except OSError as error:
            raise CommandLineError(f"error: -C {options.directory}: {error.strerror}") from None
    # Each verb is loaded only when it is asked for: what a build needs not, it does not wait for.
    if options.verb == "build":
        from .commands import build as verb
    elif options.verb == "test":
        from .commands import test as verb
    elif options.verb == "run":
        from .commands import run as verb
    elif options.verb == "query":
        from .commands import query as verb
    elif options.verb == "clean":
        from .commands import clean as verb
    elif options.verb == "inspect":
        from .commands import inspect as verb
    elif options.verb == "completion":
        from .commands import completion as verb
    else:
        from .commands import help as verb
    profile = getattr(options, "profile", None)
    if profile is None:
        return verb.main(options, started_in)
    from .commands.profile import profiling

    with profiling(profile, f"build {options.verb}"):
        return verb.main(options, started_in)


def _report(error: Exception) -> int:
    from .core.diagnostics import BuildError, UsageError

    if isinstance(error, BuildError):
        print(error, file=sys.stderr)
        return exit_codes.COMMAND_LINE_ERROR if isinstance(error, UsageError) else exit_codes.BUILD_FAILED
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{error.strerror}\n  to fix: {_OF_THE_MACHINE[error.errno]}", file=sys.stderr)
        return exit_codes.ENVIRONMENT_ERROR
    import traceback

    traceback.print_exception(error)
    print("This is a bug in rules_executorch: please report it with the lines above.", file=sys.stderr)
    return exit_codes.INTERNAL_ERROR


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
