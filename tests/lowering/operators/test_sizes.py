"""Arithmetic on sizes comes to the runtime's primitives, and gives at other sizes what eager gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.emission import emit
from support.modules import Apply
from support.official_runtime import run_method
from torch.export import Dim

from rules_executorch.lowering.format.write import pte_bytes
from rules_executorch.lowering.operators import stock

N = Dim("n", min=4, max=20)
ODD = 2 * Dim("half", min=2, max=9) + 1


def ones(size: Any) -> torch.Tensor:
    return torch.ones(size + 3)


def choose(condition: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(condition, lambda y: y + 1, lambda y: y * 2, (x,))


Case = tuple[Callable[[torch.Tensor], torch.Tensor], Any]

# For each primitive, functions of a vector of which it must compute something from the size.
PRIMITIVES: dict[str, list[Case]] = {
    "add.Scalar": [(lambda x: ones(x.shape[0]), N)],
    "sub.Scalar": [(lambda x: ones((x.shape[0] - 1) // 2), ODD)],
    "mul.Scalar": [(lambda x: ones(x.shape[0] * 3), N)],
    "floordiv.Scalar": [(lambda x: ones(x.shape[0] // 2), N), (lambda x: ones(-(-x.shape[0] // 3)), N)],
    "mod.Scalar": [(lambda x: ones(x.shape[0] % 3), N)],
    "truediv.Scalar": [(lambda x: ones(math.trunc(x.shape[0] / 3)), N)],
    "sym_float.Scalar": [(lambda x: ones(math.trunc(x.shape[0] * 0.4)), N)],
    "trunc.Scalar": [(lambda x: ones(math.trunc(x.shape[0] * 0.4)), N)],
    "ceil.Scalar": [(lambda x: ones(math.ceil(x.shape[0] * 0.4)), N)],
    "sym_int.Scalar": [(lambda x: ones(math.floor(x.shape[0] * 0.4)), N)],
    "round.Scalar": [(lambda x: ones(round(x.shape[0] * 0.5)), N)],
    "sym_max.Scalar": [(lambda x: ones(torch.sym_max(x.shape[0], 5)), N)],
    "sym_min.Scalar": [(lambda x: ones(torch.sym_min(x.shape[0], 5)), N)],
    "gt.Scalar": [(lambda x: choose(x.shape[0] > 5, x), N)],
    "ge.Scalar": [(lambda x: choose(x.shape[0] >= 5, x), N)],
    "lt.Scalar": [(lambda x: choose(x.shape[0] < 5, x), N)],
    "le.Scalar": [(lambda x: choose(x.shape[0] <= 5, x), N)],
    "eq.Scalar": [(lambda x: choose(x.shape[0] == 5, x), N)],
    "sym_not.Scalar": [(lambda x: choose(x.shape[0] != 5, x), N)],
    "sym_ite.Scalar": [
        (lambda x: choose((x.shape[0] < 5) | (x.shape[0] > 8), x), N),
        (lambda x: choose(torch.sym_not((x.shape[0] > 5) & (x.shape[0] < 8)), x), N),
    ],
    "et_view.default": [(lambda x: (x + 1).view(1, -1) * 2, N)],
    "et_copy_index.tensor": [(lambda x: torch._higher_order_ops.map(lambda y: y * 2, x), N)],
}

UNREACHED = {
    "floordiv.int": "floordiv.Scalar does it",
    "mod.int": "mod.Scalar does it",
    "neg.Scalar": "a product with -1",
}


@pytest.mark.parametrize(
    ("primitive", "function", "size"),
    [pytest.param(name, *case, id=f"{name}-{i}") for name, cases in PRIMITIVES.items() for i, case in enumerate(cases)],
)
def test_a_size_is_computed_by_its_primitive(
    primitive: str, function: Callable[[torch.Tensor], torch.Tensor], size: Any
) -> None:
    emitted = emit(Apply(function), (torch.arange(5.0),), (({0: size},),))
    used = {str(operator) for operator in emitted.program_file.program.execution_plan[0].operators}
    assert f"executorch_prim::{primitive}" in used
    for count in (5, 7, 9, 13):
        x = torch.arange(float(count))
        torch.testing.assert_close(run_method(pte_bytes(emitted), (x,)), [function(x)])


def test_every_primitive_has_a_case_or_a_reason() -> None:
    primitives = {name.partition("::")[2] for name in stock.names if name.startswith("executorch_prim::")}
    assert primitives == PRIMITIVES.keys() | UNREACHED.keys()
    assert not PRIMITIVES.keys() & UNREACHED.keys()
