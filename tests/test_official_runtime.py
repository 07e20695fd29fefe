"""The tests' own way to the official runtime: whatever happens there is an error here, and nothing worse."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch._higher_order_ops import while_loop

from rules_executorch.lowering.format.encode import encode
from rules_executorch.lowering.format.write import pte_bytes
from support.emission import emit
from support.modules import Apply
from support.official_runtime import RuntimeFailure, operator_names, run_method, run_methods, run_methods_here

x = torch.tensor([1.0, -2.0])


@pytest.fixture(scope="module")
def pte() -> bytes:
    return pte_bytes(emit(Apply(lambda a: a + 1), (x,)))


def test_a_program_runs_from_bytes_and_from_a_path(pte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.pte"
    path.write_bytes(pte)
    for source in (pte, path, str(path)):
        assert torch.equal(run_method(source, [x])[0], x + 1)
    assert torch.equal(run_methods_here(pte, [("forward", [x])])[0][0], x + 1)


def test_memories_may_be_apart(pte: bytes) -> None:
    assert torch.equal(run_methods(pte, [("forward", [x])] * 2, separate_arenas=True)[1][0], x + 1)


def test_what_the_runtime_says_is_in_the_error(pte: bytes) -> None:
    with pytest.raises(RuntimeFailure, match="(?s)0x10.*Attempted to resize"):
        run_method(pte, [torch.ones(3)])


def test_a_program_that_kills_the_runtime_kills_nothing_else(pte: bytes) -> None:
    emitted = emit(Apply(lambda a: a + 1), (x,))
    program = emitted.program_file.program
    broken = dataclasses.replace(program.execution_plan[0], inputs=None)
    fatal = encode(dataclasses.replace(program, execution_plan=(broken,)), b"ET12")
    with pytest.raises(RuntimeFailure, match="SIGABRT"):
        run_method(fatal, [x])
    assert torch.equal(run_method(pte, [x])[0], x + 1)


def test_a_program_that_does_not_end_is_stopped() -> None:
    def forever(a: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda b: (b < 1e30).all(), lambda b: (b * 1.0,), (a * 1,))[0]

    endless = pte_bytes(emit(Apply(forever), (torch.randn(200_000),)))
    with pytest.raises(RuntimeFailure, match="SIGALRM after 1 s"):
        run_method(endless, [torch.ones(200_000)], timeout=1)


def test_names_of_operators_are_the_registrys() -> None:
    assert {"aten::add.out", "aten::_local_scalar_dense"} <= operator_names()
