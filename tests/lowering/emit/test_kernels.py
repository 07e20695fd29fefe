"""Kernel calls: every kind of argument and result, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from support.emission import check
from support.modules import Apply

aten = torch.ops.aten
x34, y34 = torch.randn(3, 4), torch.randn(3, 4)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "tensor operands and a default number": (lambda a, b: a + b, (x34, y34)),
    "alpha": (lambda a, b: torch.sub(a, b, alpha=2), (x34, y34)),
    "float scalar": (lambda a: a * 2.5, (x34,)),
    "integer scalar": (lambda a: a + 3, (torch.arange(6),)),
    "boolean scalar": (lambda a: torch.full_like(a, True), (torch.tensor([True, False]),)),
    "negative zero is not zero": (lambda a: (1 / (a * -0.0), 1 / (a * 0.0)), (torch.ones(2),)),
    "infinity": (lambda a: a.masked_fill(a > 0, float("-inf")), (x34,)),
    "integer list": (lambda a: a.permute(1, 0), (x34,)),
    "optional list absent": (lambda a: a.sum(), (x34,)),
    "one number for a list": (lambda a: a.mean(1), (x34,)),
    "optional tensor absent": (lambda a: torch.nn.functional.layer_norm(a, [4]), (x34,)),
    "list of tensors": (lambda a, b: torch.cat([a, b, a], 1), (x34, y34)),
    "list of optional tensors": (lambda a, i: a[:, i], (x34, torch.tensor([0, 3, 1]))),
    "string": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (x34, y34)),
    "several results": (lambda a: torch.topk(a, 2), (x34,)),
    "only one of several results": (lambda a: torch.topk(a, 2)[1], (x34,)),
    "a list of results": (lambda a: torch.split(a * 1.5, [1, 3], 1), (x34,)),
    "a list of results, cut outermost": (lambda a: [p + 1 for p in torch.split(a * 1.5, [1, 2], 0)], (x34,)),
    "dtype decides": (lambda a: a.to(torch.int32), (x34,)),
    "factory": (lambda a: a + torch.arange(4), (x34,)),
    "range with a start": (lambda a: a + torch.arange(2, 6), (x34,)),
    "comparison": (lambda a, b: (a < b, a >= 0), (x34, y34)),
    "where": (lambda a, b: torch.where(a > b, a, 0.0), (x34, y34)),
    "matrix product": (lambda a, b: a @ b.t(), (x34, y34)),
    "convolution": (lambda a, w: torch.conv2d(a, w, padding=1), (torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3))),
    "float64": (lambda a: a.exp(), (torch.randn(3, dtype=torch.float64),)),
    "float16": (lambda a: a * 2, (torch.randn(3).half(),)),
    "bfloat16": (lambda a: a * 2, (torch.randn(3).bfloat16(),)),
    "uint8": (lambda a: a + a, (torch.arange(5, dtype=torch.uint8),)),
    "complex": (lambda a: a.to(torch.complex64), (x34,)),
    "half a complex": (lambda a: a.to(torch.complex32), (x34,)),
    "bool": (lambda a: ~a, (torch.tensor([True, False]),)),
    "no elements": (lambda a: a + 1, (torch.zeros(0, 3),)),
    "no dimensions": (lambda a: a + 1, (torch.tensor(2.0),)),
    "the same operand twice": (lambda a: a * a, (x34,)),
    "a chain of elementwise operators": (lambda a, b: ((a + b).relu() * a).sigmoid().tanh() + b, (x34, y34)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name: str) -> None:
    function, inputs = CASES[name]
    check(Apply(function), inputs, inputs)
