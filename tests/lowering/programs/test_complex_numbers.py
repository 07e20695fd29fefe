"""Complex numbers inside of programs with real inputs and outputs: what the runtime takes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.emission import check
from support.modules import Apply
from torch.export import Dim

from rules_executorch.lowering import LoweringError, to_edge

Function = Callable[[torch.Tensor], torch.Tensor]
X = torch.linspace(-1, 2, 8).reshape(2, 4)


def z(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x * 0.5 + 1)


CASES: dict[str, Function] = {
    "an imaginary number": lambda x: x * 2j,
    "integers": lambda x: x.to(torch.int64) * 2j,
    "sum and difference with numbers": lambda x: (z(x) + 2j) - (1 - 3j),
    "a number less something": lambda x: 2j - z(x),
    "quotients": lambda x: z(x) / 2j + 1 / z(x),
    "negative": lambda x: -z(x),
    "scaled difference": lambda x: torch.sub(z(x), z(x + 1), alpha=3),
    "real factor": lambda x: z(x) * x,
    "broadcasting": lambda x: z(x) * z(x)[0] / z(x)[:, :1] + x[0],
    "matrix product": lambda x: z(x) @ z(x).t(),
    "rotation": lambda x: torch.view_as_complex(x.view(2, 2, 2)) * torch.polar(torch.ones(2, 2), torch.ones(2, 2)),
    "moved": lambda x: torch.cat([z(x)[:, 1:].t(), z(x).unsqueeze(0)[0].t()]),
}


@pytest.mark.parametrize("name", CASES)
def test_complex_arithmetic_equals_eager(name: str) -> None:
    check(Apply(lambda x: torch.view_as_real(CASES[name](x))), (X,), (X - 3,), atol=1e-4)


def test_complex_arithmetic_of_dynamic_size() -> None:
    module = Apply(lambda x: torch.view_as_real(x * 2j + z(x)[:1]))
    check(module, (X,), (torch.randn(5, 4),), dynamic_shapes=(({0: Dim("rows", min=1, max=8)},),))


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.exp(z(x)), lambda x: torch.where(x > 0, z(x), 0j), lambda x: torch.cat([z(x), x])],
)
def test_what_kernels_refuse_is_refused_at_build_time_with_line_and_remedy(function: Function) -> None:
    module = Apply(lambda x: torch.view_as_real(function(x)))
    with pytest.raises(LoweringError, match="refuses this call of aten.*complex numbers") as caught:
        to_edge(torch.export.export(module, (X,))).to_executorch()
    assert "  from: " in str(caught.value) and "  1. " in str(caught.value)
