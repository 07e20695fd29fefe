"""--check_determinism: what differs between two runs is found, and told by the file's structure."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.write import write_pte
from support.build_command import build, counts, write_files

from rules_executorch.builder.commands.difference import describe_difference, first_differing_byte


def _workspace(root: Path, command: str, **attributes: str) -> Path:
    more = "".join(f", {name} = {value}" for name, value in attributes.items())
    return write_files(root / "ws", {"BUILD": f"genrule(name = \"x\", outs = [\"o\"], cmd = '''{command}'''{more})\n"})


def test_an_action_that_makes_the_same_is_deterministic(tmp_path: Path) -> None:
    result = build(_workspace(tmp_path, "echo 1 > $@"), "--check_determinism", "//:x")
    assert result.returncode == 0 and "1 action made the same bytes twice" in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        "date +%s.%N > $@",
        "echo $$RANDOM$$RANDOM > $@",
        "echo $$OMP_NUM_THREADS > $@",
        "echo $$PYTHONHASHSEED > $@",
        "echo $$$$ $$(date +%N) > $@",
    ],
)
def test_what_depends_on_time_chance_threads_or_hashes_is_found(tmp_path: Path, command: str) -> None:
    ws = _workspace(tmp_path, command)
    result = build(ws, "--check_determinism", "//:x")
    assert result.returncode == 1 and "Genrule of //:x is not deterministic" in result.stderr
    assert "is the first that differs" in result.stderr and "\n  line 1: " in result.stderr
    kept = ws / "build-out/.state/second_run/w/o"
    assert kept.read_text() != (ws / "build-out/o").read_text()


def test_actions_that_came_from_the_cache_are_checked_and_nothing_else_changes(tmp_path: Path) -> None:
    ws = _workspace(tmp_path, "date +%N > $@")
    build(ws, "//:x")
    before = (ws / "build-out/o").read_text()
    assert build(ws, "--check_determinism", "//:x").returncode == 1
    assert (ws / "build-out/o").read_text() == before
    assert counts(build(ws, "//:x")) == (0, 0, 1)


def test_an_action_that_fails_under_other_conditions_is_found(tmp_path: Path) -> None:
    result = build(_workspace(tmp_path, "test $$OMP_NUM_THREADS = 1 && touch $@"), "--check_determinism", "//:x")
    assert result.returncode == 1 and "failed with exit status 1" in result.stderr
    reproduce = re.search(r"to run it again: (.*)", result.stderr)
    assert reproduce and subprocess.run(reproduce[1], shell=True, capture_output=True, check=False).returncode == 1


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_the_first_differing_byte(tmp_path_factory: pytest.TempPathFactory, one: bytes, other: bytes) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "a").write_bytes(one), (folder / "b").write_bytes(other)
    position = first_differing_byte(folder / "a", folder / "b")
    assert one[:position] == other[:position]
    assert one == other or one[position : position + 1] != other[position : position + 1]
    assert describe_difference(folder / "a", folder / "b")


def test_a_tensor_is_named(tmp_path: Path) -> None:
    header = json.dumps(
        {
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "b": {"dtype": "I8", "shape": [4], "data_offsets": [8, 12]},
        }
    ).encode()
    for name, data in (("one", bytes(12)), ("other", bytes(9) + b"\1\0\0")):
        (tmp_path / name).write_bytes(struct.pack("<Q", len(header)) + header + data)
    assert "tensor b (I8 [4]), byte 1 of it" in describe_difference(tmp_path / "one", tmp_path / "other")


def test_a_field_of_a_program_is_named(tmp_path: Path) -> None:
    for number in (1, 2):
        values = (schema.Int(0), schema.Int(number))
        plan = schema.ExecutionPlan(name="f", values=values, chains=(schema.Chain(),), non_const_buffer_sizes=(0,))
        write_pte(ProgramFile(schema.Program(execution_plan=(plan,))), tmp_path / f"{number}.pte")
    described = describe_difference(tmp_path / "1.pte", tmp_path / "2.pte")
    assert described.endswith("execution_plan[0].values[1].value: 1 and 2")


def test_a_place_in_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('{"graph": {"nodes": [1, {"op": "add"}]}}')
    (tmp_path / "other").write_text('{"graph": {"nodes": [1, {"op": "mul"}]}}')
    assert "graph.nodes[1].op: 'add' and 'mul'" in describe_difference(tmp_path / "one", tmp_path / "other")
