"""A function in a forked child: its status, its exceptions, its death."""

from __future__ import annotations

import os
import signal

import pytest
from rules_executorch.runtime.child import ChildKilledError, exit_status


def test_the_status_is_what_the_function_returns() -> None:
    assert exit_status(lambda: 0) == 0
    assert exit_status(lambda: 3) == 3


def test_an_exception_is_printed_and_is_status_70(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise RuntimeError("no such luck")

    assert exit_status(fail) == 70
    assert "RuntimeError: no such luck" in capfd.readouterr().err


def test_a_crash_is_an_error_of_the_child_only() -> None:
    def crash() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with pytest.raises(ChildKilledError, match="SIGKILL"):
        exit_status(crash)


def test_what_was_printed_before_appears_once(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    exit_status(lambda: 0)
    assert capfd.readouterr().out == "before\n"
