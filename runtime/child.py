"""Runs a function in a forked child, so that whatever crashes there crashes nothing else."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable


class ChildKilledError(Exception):
    """The child ended by a signal; the message names it."""


def exit_status(function: Callable[[], int]) -> int:
    """The exit status of a child forked from this process that runs `function`.

    An exception there is printed with its traceback, and is status 70.

    Raises:
        ChildKilledError: a signal ended the child.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 70  # EX_SOFTWARE
        try:
            status = function()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, wait_status = os.waitpid(child, 0)
    if os.WIFSIGNALED(wait_status):
        raise ChildKilledError(signal.Signals(os.WTERMSIG(wait_status)).name)
    return os.WEXITSTATUS(wait_status)
