"""--profile: what a trace says of a command."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.build_command import build, write_files

from rules_executorch.builder.commands.profile import chrome_trace
from rules_executorch.builder.core.timeline import Span


def _spans(root: Path, *arguments: str) -> dict[str, dict]:
    """The spans of a build by name (of actions' parts: the last one of that name)."""
    result = build(root, "--profile=../trace.json", *arguments)
    assert result.returncode in (0, 1), result.stderr
    events = json.loads((root.parent / "trace.json").read_text())["traceEvents"]
    return {event["name"]: event for event in events if event["ph"] == "X"}


def _within(inner: dict, outer: dict) -> bool:
    ends = inner["ts"] + inner["dur"], outer["ts"] + outer["dur"]
    return outer["ts"] <= inner["ts"] + 0.001 and ends[0] <= ends[1] + 0.001


def test_a_trace_has_loading_analysis_cache_lookups_and_actions(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", {"BUILD": 'genrule(name = "x", outs = ["o"], cmd = "sleep 0.2; touch $@")\n'})
    spans = _spans(ws, "//:x")
    assert {"build build", "loading", "analysis", "execution", "Genrule //:x", "look up", "run in the sandbox"} <= set(spans)
    assert all(_within(span, spans["build build"]) for span in spans.values())
    for part in ("digest inputs", "look up", "run in the sandbox", "store w/o", "publish outputs"):
        assert _within(spans[part], spans["Genrule //:x"]) and spans[part]["tid"] == spans["Genrule //:x"]["tid"]
    assert 200_000 <= spans["run in the sandbox"]["dur"] <= spans["Genrule //:x"]["dur"]
    assert spans["Genrule //:x"]["args"] == {"output": "w/o"} and spans["Genrule //:x"]["cat"] == "action"
    again = _spans(ws, "//:x")
    assert "look for changes" in again and "loading" not in again and "Genrule //:x" not in again


def test_a_build_that_fails_is_traced(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", {"BUILD": 'genrule(name = "x", outs = ["o"], cmd = "exit 1")\n'})
    assert "Genrule //:x" in _spans(ws, "//:x")
    (ws / "BUILD").write_text("genrule(")
    assert "loading" in _spans(ws, "//:x")


def test_a_file_that_cannot_be_written_is_a_mistake_in_the_command_line(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", {"BUILD": ""})
    for option in ("--profile", "--build_event_json_file"):
        result = build(ws, f"{option}=no/such/folder", "//:all")
        assert result.returncode == 2 and "No such file" in result.stderr


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_spans_of_one_row_do_not_overlap(actions: list[tuple[int, int, int]]) -> None:
    """Whichever threads run actions at the same time, each stands free in its row."""
    spans, free_from = [Span("command", "build", 0, 1000, 99, {})], dict.fromkeys(range(4), 0)
    for number, (thread, pause, length) in enumerate(actions):
        began = free_from[thread] + pause
        free_from[thread] = began + length + 1
        spans.append(Span("action", str(number), began * 1000, (began + length) * 1000, thread, {}))
    rows: dict[int, list[tuple[float, float]]] = {}
    for event in chrome_trace(spans)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "action":
            rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for row in rows.values():
        assert all(end <= begin for (_, end), (begin, _) in zip(sorted(row), sorted(row)[1:]))
    assert 0 not in rows and len(rows) <= 4 and sum(map(len, rows.values())) == len(actions)
