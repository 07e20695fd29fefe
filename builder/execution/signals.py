"""What an action's process does about signals: what a program does that nobody prepared."""

from __future__ import annotations

import signal

# Python ignores these itself.
IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


def restore_signals(ignored: frozenset[signal.Signals] = frozenset()) -> None:
    """Let no signal but `ignored` be ignored, and block none.

    Both are inherited: a shell without job control starts a background command with SIGINT ignored, nohup one
    with SIGHUP ignored, and no action should see from where its build was started.
    """
    for number in signal.valid_signals() - ignored:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
