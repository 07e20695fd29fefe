"""What is no edge program, or has no kernel, is refused with its node, the model's line and ways out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.edge_programs import calls, edge_of

from rules_executorch.lowering.edge import conversion
from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.edge.verify import verify_edge_program
from rules_executorch.lowering.errors import LoweringError

aten = torch.ops.aten


class NoKernel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x) + 1


def test_an_operator_without_kernel_is_named_with_its_line_and_remedies() -> None:
    edge = edge_of(NoKernel(), torch.rand(3), verify=False)
    with pytest.raises(LoweringError) as error:
        verify_edge_program(edge)
    lines = str(error.value).splitlines()
    assert lines[0] == "the target runtime has no kernel for aten.lgamma.default"
    assert "test_verify.py" in lines[2] and "return torch.lgamma(x) + 1" in lines[2]
    assert any(line.strip().startswith("1. delegate") for line in lines)


REFUSED: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "bincount": (lambda x: torch.bincount(x), torch.tensor([1, 2, 2])),
    "histc": (lambda x: torch.histc(x, 5, 0.0, 1.0), torch.rand(9)),
    "gcd": (lambda x: torch.gcd(x, x + 6), torch.tensor([4, 6])),
    "frexp": (lambda x: torch.frexp(x), torch.rand(3)),
    "lgamma": (lambda x: torch.lgamma(x), torch.rand(3)),
    "mode": (lambda x: torch.mode(x, 1), torch.ones(4, 7)),
    "grid_sampler_3d": (lambda x: F.grid_sample(x, torch.zeros(1, 2, 2, 2, 3)), torch.rand(1, 2, 3, 3, 3)),
    "embedding_renorm": (lambda x: F.embedding(torch.tensor([0, 1]), x, max_norm=1.0), torch.rand(3, 4)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), torch.ones(1, 2, 4, 4, 4, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernels_come_to_exactly_is_refused(name: str) -> None:
    function, inputs = REFUSED[name]
    edge = edge_of(function, inputs, verify=False)
    with pytest.raises(LoweringError) as error:
        verify_edge_program(edge)
    assert re.match(rf"the target runtime has no kernel for aten\.{name}\.", str(error.value))
    assert "  from: " in str(error.value) and len(error.value.remedies) >= 2


def test_it_is_left_whole_for_a_backend_to_take() -> None:
    edge = edge_of(NoKernel(), torch.rand(3), verify=False)
    assert calls(edge)[0] == "lgamma.default"
    verify_edge_program(edge, allowed=[aten.lgamma.default])


@pytest.mark.parametrize(
    ("program", "dtype", "message"),
    [
        (lambda x: torch.view_as_real(x.to(torch.complex64)), torch.int64, "does not convert torch.int64 to torch.complex64"),
        (lambda x: x.clamp(-9, 9), torch.uint8, "no bound below 0 for torch.uint8, where PyTorch takes -9 for 247"),
    ],
)
def test_a_call_that_its_kernel_refuses_is_refused_at_build_time(program, dtype: torch.dtype, message: str) -> None:
    edge = edge_of(program, torch.ones(3, dtype=dtype), verify=False)
    with pytest.raises(LoweringError, match=message):
        verify_edge_program(edge)


def test_in_a_body_too() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: (torch.lgamma(x),), lambda x: (x + 1,), (x,))[0]

    edge = edge_of(program, torch.rand(3), verify=False)
    with pytest.raises(LoweringError, match="lgamma"):
        verify_edge_program(edge)


def test_a_program_as_exported_is_no_edge_program() -> None:
    exported = torch.export.export(torch.nn.Flatten(), (torch.rand(2, 3, 4),))
    with pytest.raises(LoweringError, match="to_edge"):
        verify_edge_program(exported.run_decompositions({}))


def test_every_value_has_its_metadata() -> None:
    edge = edge_of(lambda x: x + 1, torch.rand(3))
    del next(node for node in edge.graph.nodes if node.op == "call_function").meta["val"]
    with pytest.raises(LoweringError, match="val"):
        verify_edge_program(edge)


def test_a_view_that_has_no_functional_form_is_an_error_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "copy_variant", lambda view: None)  # of PyTorch's own, all have one

    class Overlapping(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.unsqueeze(0) * 2

    with pytest.raises(LoweringError, match="functional form") as error:
        to_edge_program(torch.export.export(Overlapping(), (torch.rand(3),)))
    assert "x.unsqueeze(0)" in str(error.value)
