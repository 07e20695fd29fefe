"""`build test`: which tests run, what is cached, how they are counted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.build_command import build, parent_of_sleep, start, write_files

TESTS = {
    "p/BUILD": """
py_test(name = "good", srcs = ["good_test.py"])
py_test(name = "bad", srcs = ["bad_test.py"])
genrule(name = "other", outs = ["o"], cmd = "touch $@")
""",
    "p/good_test.py": "def test_it():\n    print('fine')\n",
    "p/bad_test.py": "def test_it():\n    assert 1 == 2, 'not so'\n",
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(tmp_path / "ws", TESTS)


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


def test_a_passing_test_passes(ws: Path) -> None:
    result = build(ws, "test", "//p:good")
    assert result.returncode == 0, result.stderr
    assert "//p:good  passed" in _lines(result.stdout)
    assert _lines(result.stdout)[-1] == "1 passed, 0 failed"
    assert "1 passed" in (ws / "build-out/testlogs/p/good/test.log").read_text()


def test_a_failing_test_fails_and_shows_its_output(ws: Path) -> None:
    result = build(ws, "test", "//...")
    assert result.returncode == 3
    assert "not so" in result.stdout and "//p:bad   failed (failed with exit status 1)" in result.stdout
    assert _lines(result.stdout)[-1] == "1 passed, 1 failed"
    assert "not so" in (ws / "build-out/testlogs/p/bad/test.log").read_text()


def test_a_passed_test_is_cached_and_a_failed_one_is_not(ws: Path) -> None:
    build(ws, "test", "//...")
    result = build(ws, "test", "//...")
    assert "//p:good  passed (cached)" in result.stdout
    assert _lines(result.stdout)[-1] == "1 passed, 1 failed"
    result = build(ws, "test", "--nocache_test_results", "//p:good")
    assert "//p:good  passed" in _lines(result.stdout)


def test_a_changed_test_runs_again(ws: Path) -> None:
    build(ws, "test", "//...")
    (ws / "p/bad_test.py").write_text("def test_it(): pass\n")
    (ws / "p/good_test.py").write_text("def test_it(): assert False\n")
    result = build(ws, "test", "//...")
    assert "//p:bad   passed" in _lines(result.stdout)
    assert "//p:good  failed" in result.stdout


def test_a_tests_log_that_is_deleted_comes_back(ws: Path) -> None:
    build(ws, "test", "//p:good")
    (ws / "build-out/testlogs/p/good/test.log").unlink()
    assert "passed (cached)" in build(ws, "test", "//p:good").stdout
    assert (ws / "build-out/testlogs/p/good/test.log").exists()


WAITS_FOR_A_SIGNAL = """
import signal, subprocess

def test_it():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    subprocess.Popen(["sleep", "1000.4711"])
    signal.sigwait([signal.SIGUSR1])
"""


def test_a_test_whose_inputs_change_meanwhile_is_reported_and_not_remembered(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", {"BUILD": 'py_test(name = "t", srcs = ["t_test.py"], data = ["data.txt"])\n'})
    (ws / "data.txt").write_text("1")
    (ws / "t_test.py").write_text(WAITS_FOR_A_SIGNAL)
    for _ in range(2):
        process = start(ws, "test", "//:t")
        running = parent_of_sleep("1000.4711", process)
        (ws / "data.txt").write_text((ws / "data.txt").read_text() + "1")
        os.kill(running, signal.SIGUSR1)
        out, err = process.communicate(timeout=60)
        result, count = _lines(out)[-2:]
        assert result.startswith("//:t  passed") and "cached" not in result and count == "1 passed, 0 failed", err


def test_zero_tests_are_a_failure(ws: Path) -> None:
    result = build(ws, "test", "//p:other")
    assert result.returncode == 4
    assert _lines(result.stdout)[-1] == "0 passed, 0 failed" and "no test targets" in result.stderr


def test_output_of_tests_is_shown_as_asked(ws: Path) -> None:
    assert "1 passed in" in build(ws, "test", "--test_output=all", "//p:good").stdout
    assert "not so" not in build(ws, "test", "--test_output=summary", "//p:bad").stdout


def test_a_test_sees_its_data_and_nothing_else(tmp_path: Path) -> None:
    ws = write_files(
        tmp_path / "ws",
        {
            "BUILD": """
genrule(name = "made", outs = ["made.txt"], cmd = "echo made > $@")
py_test(name = "t", srcs = ["t_test.py"], data = [":made", "data.txt"])
""",
            "data.txt": "data",
            "unseen.txt": "unseen",
            "t_test.py": """
import pathlib, os
def test_it():
    assert pathlib.Path("w/made.txt").read_text() == "made\\n"
    assert pathlib.Path("w/data.txt").read_text() == "data"
    assert not pathlib.Path("w/unseen.txt").exists()
    assert "SECRET" not in os.environ
""",
        },
    )
    result = build(ws, "test", "//:t", SECRET="1")
    assert result.returncode == 0, result.stdout


BROKEN = {
    "BUILD": """
genrule(name = "bad", outs = ["bad.txt"], cmd = "exit 1")
py_test(name = "needs_bad", srcs = ["t_test.py"], data = [":bad"])
py_test(name = "fine", srcs = ["t_test.py"])
""",
    "t_test.py": "def test_it(): pass\n",
}


def test_a_build_that_fails_runs_no_test(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", BROKEN), "test", "//...")
    assert result.returncode == 1 and "passed" not in result.stdout


def test_keep_going_tests_what_was_built(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", BROKEN), "test", "-k", "//...")
    assert result.returncode == 1
    assert "//:needs_bad  not built (w/bad.txt is missing)" in result.stdout
    assert _lines(result.stdout)[-1] == "1 passed, 1 failed"


def test_keep_going_does_not_test_what_an_earlier_build_left(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", BROKEN)
    text = (ws / "BUILD").read_text()
    (ws / "BUILD").write_text(text.replace("exit 1", "touch $@"))
    assert build(ws, "test", "//...").returncode == 0
    (ws / "BUILD").write_text(text)
    result = build(ws, "test", "-k", "//...")
    assert result.returncode == 1
    assert "//:needs_bad  not built" in result.stdout


def test_tests_of_cpp_run_too(tmp_path: Path) -> None:
    ws = write_files(
        tmp_path / "ws",
        {
            "BUILD": 'cc_test(name = "yes", srcs = ["yes.cc"])\ncc_test(name = "no", srcs = ["no.cc"])\n',
            "yes.cc": "int main() { return 0; }\n",
            "no.cc": '#include <cstdio>\nint main() { std::puts("it is no"); return 1; }\n',
        },
    )
    result = build(ws, "test", "//...")
    assert _lines(result.stdout)[-1] == "1 passed, 1 failed" and "it is no" in result.stdout
