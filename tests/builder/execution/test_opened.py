"""What is asked about where no wall stands: what is declared, and what is taken for absent."""

from __future__ import annotations

from pathlib import Path

from rules_executorch.builder.execution import opened
from rules_executorch.builder.execution.namespaces import ROOT
from rules_executorch.builder.execution.opened import Declared


def _declared(folder: Path, *sources: str) -> Declared:
    binds = [(source, f"w/{number}") for number, source in enumerate(sources)]
    return Declared({"folder": str(folder), "visible": [], "hidden": [], "binds": binds})


def test_inputs_are_read_and_outputs_written(tmp_path: Path) -> None:
    declared = _declared(tmp_path, "/somewhere/in.txt")
    assert declared.allows("/somewhere/in.txt", writing=False) and not declared.allows("/somewhere/in.txt", writing=True)
    assert declared.allows(f"{tmp_path}/root/out.txt", writing=True)
    assert not declared.allows("/somewhere/other.txt", writing=False)


def test_lines_of_a_workers_modules_are_absent_even_if_this_build_is_an_action(tmp_path: Path) -> None:
    declared = _declared(tmp_path, f"{ROOT}/w/in.txt")
    assert declared.is_absent(f"{ROOT}/engine/module.py") and declared.is_absent(opened.__file__)
    assert declared.allows(f"{ROOT}/w/in.txt", writing=False), "an input is one wherever it stands"
    assert not declared.is_absent(f"{tmp_path}/secret.txt")
