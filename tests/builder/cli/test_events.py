"""--build_event_json_file: the events of builds and tests, as programs read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from support.build_command import build, write_files

FILES = {
    "BUILD": """
genrule(name = "good", outs = ["g"], cmd = "echo careful; touch $@")
genrule(name = "bad", outs = ["b"], cmd = "echo went wrong; exit 3")
genrule(name = "after", srcs = [":bad"], outs = ["a"], cmd = "cp $< $@")
py_test(name = "passes", srcs = ["passes_test.py"])
py_test(name = "fails", srcs = ["fails_test.py"])
""",
    "passes_test.py": "def test_it(): pass\n",
    "fails_test.py": "def test_it(): assert False\n",
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(tmp_path / "a folder", FILES)


def _events(ws: Path, code: int, *arguments: str) -> list[dict]:
    result = build(ws, *arguments, "--build_event_json_file=events.json")
    assert result.returncode == code, result.stderr
    return [json.loads(line) for line in (ws / "events.json").read_text().splitlines()]


def _of(events: list[dict], kind: str) -> list[dict]:
    return [event for event in events if kind in event]


def test_a_build_begins_expands_runs_completes_and_ends(ws: Path) -> None:
    events = _events(ws, 0, "//:good")
    assert [next(iter(event["id"])) for event in events] == [
        "started",
        "pattern",
        "actionCompleted",
        "targetCompleted",
        "buildFinished",
    ]
    started, expanded, action, completed, finished = events
    assert started["started"]["command"] == "build" and started["started"]["workspaceDirectory"] == str(ws)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", started["started"]["startTime"])
    assert started["children"] == [{"pattern": {"pattern": ["//:good"]}}, {"buildFinished": {}}]
    assert expanded["children"] == [{"targetCompleted": {"label": "//:good"}}]
    assert action["id"] == {"actionCompleted": {"primaryOutput": "w/g", "label": "//:good"}}
    assert action["action"]["success"] and action["action"]["printed"] == "careful\n"
    assert action["action"]["startTime"] <= action["action"]["endTime"] and not action["action"]["cached"]
    (output,) = completed["completed"]["importantOutput"]
    assert Path(unquote(urlparse(output["uri"]).path)).samefile(ws / "build-out/g") and completed["completed"]["success"]
    assert finished["finished"]["exitCode"] == {"name": "SUCCESS", "code": 0}


def test_every_event_but_the_first_and_actions_is_announced(ws: Path) -> None:
    events = _events(ws, 1, "-k", "//:good", "//:bad")
    announced = [json.dumps(child) for event in events for child in event.get("children", ())]
    for event in events[1:]:
        assert json.dumps(event["id"]) in announced or "actionCompleted" in event["id"]


def test_failures_say_what_failed_and_how_to_run_it_again(ws: Path) -> None:
    events = _events(ws, 1, "-k", "//:good", "//:after")
    (failed,) = [e["action"] for e in _of(events, "action") if not e["action"]["success"]]
    assert failed["label"] == "//:bad" and failed["printed"] == "went wrong\n"
    assert "exit status 3" in failed["failureDetail"]["message"] and failed["reproduce"].startswith("cd ")
    success = {e["id"]["targetCompleted"]["label"]: e["completed"]["success"] for e in _of(events, "completed")}
    assert success == {"//:good": True, "//:after": False}
    assert events[-1]["finished"]["exitCode"] == {"name": "BUILD_FAILURE", "code": 1}


def test_what_is_up_to_date_is_completed_without_actions(ws: Path) -> None:
    _events(ws, 0, "//:good")
    events = _events(ws, 0, "//:good")
    assert not _of(events, "action") and _of(events, "completed")[0]["completed"]["success"]


def test_tests_have_results(ws: Path) -> None:
    events = _events(ws, 3, "test", "//:passes", "//:fails")
    results = {e["id"]["testResult"]["label"]: e["testResult"] for e in _of(events, "testResult")}
    assert {label: result["status"] for label, result in results.items()} == {"//:passes": "PASSED", "//:fails": "FAILED"}
    log = Path(unquote(urlparse(results["//:fails"]["testActionOutput"][0]["uri"]).path))
    assert "assert False" in log.read_text()
    assert events[-1]["finished"]["exitCode"]["name"] == "TESTS_FAILED"
    again = _events(ws, 0, "test", "//:passes")
    assert _of(again, "testResult")[0]["testResult"]["cachedLocally"]


def test_mistakes_abort_and_are_told(ws: Path) -> None:
    (ws / "BUILD").write_text("genrul(name = 'x')\n")
    events = _events(ws, 1, "//:x")
    (aborted,) = _of(events, "aborted")
    assert "genrule" in aborted["aborted"]["description"]
    assert events[-1]["finished"]["exitCode"]["code"] == 1
    assert _events(ws, 2, "//:a:b")[-1]["finished"]["exitCode"]["name"] == "COMMAND_LINE_ERROR"
