"""Where two programs differ is named by the tables' own fields."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rules_executorch.lowering.command.main import main
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.container import Segment
from rules_executorch.lowering.format.difference import first_difference
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.write import write_pte


def _program(number: int = 1, name: str = "forward", data: bytes = bytes(8), nan: bool = False) -> ProgramFile:
    plan = schema.ExecutionPlan(
        name=name,
        values=(schema.Int(0), schema.Int(number), schema.Double(float("nan") if nan else 0.5)),
        chains=(schema.Chain(),),
        non_const_buffer_sizes=(0,),
    )
    program = schema.Program(
        execution_plan=(plan,),
        segments=(schema.DataSegment(0, len(data)),),
        constant_segment=schema.SubsegmentOffsets(0, (0,)),
        named_data=(schema.NamedData("weights", 0),),
    )
    return ProgramFile(program, (Segment(0, len(data), ((0, data),)),))


def test_equal_programs_do_not_differ() -> None:
    assert first_difference(_program(), _program()) is None
    assert first_difference(_program(nan=True), _program(nan=True)) is None


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (_program(number=2), "execution_plan[0].values[1].value: 1 and 2"),
        (_program(name="decode"), "execution_plan[0].name: 'forward' and 'decode'"),
        (_program(data=bytes(5) + b"\7" + bytes(2)), "segment 0 (named data): byte 5 is 0x00 and 0x07"),
        (_program(nan=True), "execution_plan[0].values[2].value: 0.5 and nan"),
    ],
)
def test_the_first_place_is_named(other: ProgramFile, told: str) -> None:
    assert first_difference(_program(), other) == told


def test_a_value_of_another_type_is_shown() -> None:
    plan = _program().program.execution_plan[0]
    other = dataclasses.replace(plan, values=(schema.Null(), *plan.values[1:]))
    changed = dataclasses.replace(_program(), program=dataclasses.replace(_program().program, execution_plan=(other,)))
    assert "execution_plan[0].values[0]: Int" in (first_difference(_program(), changed) or "")


def test_the_command_compares_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pte(_program(), tmp_path / "a.pte")
    write_pte(_program(number=2), tmp_path / "b.pte")
    assert main(["difference", str(tmp_path / "a.pte"), str(tmp_path / "b.pte")]) == 0
    assert capsys.readouterr().out == "execution_plan[0].values[1].value: 1 and 2\n"
    assert main(["difference", str(tmp_path / "a.pte"), str(tmp_path / "a.pte")]) == 0
    assert "mean the same" in capsys.readouterr().out
