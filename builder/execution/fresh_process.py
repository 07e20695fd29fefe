"""Makes a process that was forked from a zygote what a new process would be, and runs a Python action in it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence

from . import python_launcher
from .signals import IGNORED_BY_PYTHON, restore_signals


def become(argv: Sequence[str], environment: dict[str, str]) -> None:
    """Be the process that `argv`, a command of the toolchain `python`, would have started; does not return.

    The current folder is the execution root, where preloaded modules stand already.
    """
    _renew(argv, environment)
    status = 1
    try:
        python_launcher.main(list(argv[argv.index(python_launcher.__file__) + 1 :]))
        status = 0
    except SystemExit as end:
        status = _status_of(end)
    except BaseException as error:
        frames = error.__traceback__
        # The first ones are the zygote's.
        while frames and frames.tb_frame.f_code is not python_launcher.main.__code__:
            frames = frames.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        if isinstance(error, KeyboardInterrupt):
            status = -signal.SIGINT
    finally:
        _end(status)


def _renew(argv: Sequence[str], environment: dict[str, str]) -> None:
    # As a program that is executed has only the standard ones.
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    restore_signals(ignored=IGNORED_BY_PYTHON)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.orig_argv[:] = argv
    _set_threads(environment)
    # The zygote's own modules are none of the action's.
    for name in [__package__, *(f"{__package__}.{name}" for name in vars(sys.modules[__package__]))]:
        sys.modules.pop(name, None)
    # The launcher takes the first entry for the folder of its script.
    sys.path.insert(0, "")
    gc.enable()


def _set_threads(environment: dict[str, str]) -> None:
    """As many threads as the variable says that libraries read when they are loaded: in a zygote, with one."""
    count = environment.get("OMP_NUM_THREADS", "1")
    if count != "1" and (torch := sys.modules.get("torch")):
        torch.set_num_threads(int(count))


def _status_of(end: SystemExit) -> int:
    """The exit status that an interpreter gives to SystemExit."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _end(status: int) -> None:
    """End as an interpreter does, without taking the zygote's objects apart; by a signal if `status` is minus one."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(AttributeError):
            sys.stderr.flush()
        try:
            sys.stdout.flush()
        except (OSError, ValueError) as error:
            print(f"Exception ignored in: {sys.stdout!r}\n{type(error).__name__}: {error}", file=sys.stderr)
            status = status or 120
        ctypes.CDLL(None).fflush(None)
    except BaseException:
        traceback.print_exc()
    finally:
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status)
