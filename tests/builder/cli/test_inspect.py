"""`build inspect`: what a program holds, for people and for pipes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.write import write_pte
from support.build_command import BUILD, build, environment


@pytest.fixture
def program(tmp_path: Path) -> Path:
    plan = schema.ExecutionPlan(name="forward", chains=(schema.Chain(),), non_const_buffer_sizes=(0,))
    write_pte(ProgramFile(schema.Program(execution_plan=(plan,))), tmp_path / "m.pte")
    return tmp_path / "m.pte"


def test_it_prints_what_a_program_holds(program: Path) -> None:
    result = build(program.parent, "inspect", "m.pte")
    assert result.returncode == 0 and "forward" in result.stdout


def test_a_reader_who_has_seen_enough_gets_no_traceback(program: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*BUILD, "inspect", str(program)]
    env = environment(program.parent / "cache")
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=env, check=False)
    os.close(writer)
    assert result.stderr == "" and result.returncode == 1


def test_a_file_that_is_no_program_is_a_mistake(program: Path) -> None:
    program.write_bytes(b"something else")
    result = build(program.parent, "inspect", "m.pte")
    assert result.returncode == 1 and "error:" in result.stderr and "Traceback" not in result.stderr
