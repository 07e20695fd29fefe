"""Every operator of the reference backend against eager PyTorch, on the official runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from rules_executorch.backends.reference import BACKEND_ID, ReferencePartitioner
from rules_executorch.backends.reference.blob import Opcode, deserialize
from rules_executorch.backends.reference.operators import ENCODERS
from rules_executorch.lowering import to_edge_transform_and_lower
from rules_executorch.lowering.delegation.backend import DelegationSpec
from rules_executorch.lowering.delegation.lowered_module import lowered_modules
from support.official_runtime import run_methods
from support.reference_runtime import library
from torch.export import Dim

F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    """A function on inputs; with `grown`, dimension 0 of the first input is dynamic and that many are tried."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    opcodes: tuple[str, ...]
    grown: tuple[int, ...] = ()


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes) + len(sizes)))


def ints(*sizes: int, high: int = 5) -> torch.Tensor:
    return torch.randint(-high, high, sizes, generator=torch.Generator().manual_seed(7))


NAN = torch.tensor([1.0, float("nan"), -2.0, float("inf")])
NAN2 = torch.tensor([float("nan"), 1.0, -2.0, float("-inf")])

CASES: dict[str, Case] = {
    "add": Case(torch.add, (r(2, 3), r(2, 3)), ("ADD",)),
    "add_broadcast": Case(torch.add, (r(4, 1, 3), r(2, 1)), ("ADD",), grown=(1, 6)),
    "add_0d": Case(torch.add, (r(), r(3)), ("ADD",)),
    "add_alpha": Case(lambda a, b: torch.add(a, b, alpha=3), (r(2, 3), r(3)), ("ADD",)),
    "add_scalar": Case(lambda a: a + 1.5, (r(2, 3),), ("ADD",)),
    "add_int": Case(torch.add, (ints(3), ints(2, 1)), ("ADD",)),
    "add_int_scalar": Case(lambda a: a + 3, (ints(3),), ("ADD",)),
    "add_empty": Case(torch.add, (r(0, 3), r(3)), ("ADD",)),
    "sub": Case(torch.sub, (r(2, 3), r(2, 1)), ("SUB",)),
    "sub_alpha": Case(lambda a, b: torch.sub(a, b, alpha=0.5), (r(2, 3), r(3)), ("SUB",)),
    "sub_scalar": Case(lambda a: a - 2, (r(2, 3),), ("SUB",)),
    "sub_int": Case(torch.sub, (ints(3), ints(2, 1)), ("SUB",)),
    "mul": Case(torch.mul, (r(5, 1, 2, 3), r(4, 1, 3)), ("MUL",), grown=(1, 7)),
    "mul_scalar": Case(lambda a: a * 0.1, (r(2, 3),), ("MUL",)),
    "mul_int": Case(torch.mul, (ints(4), ints(4)), ("MUL",)),
    "div": Case(torch.div, (r(2, 3), r(3)), ("DIV",)),
    "div_scalar": Case(lambda a: a / 3, (r(2, 3),), ("DIV",)),
    "maximum": Case(torch.maximum, (NAN, NAN2), ("MAXIMUM",)),
    "minimum": Case(torch.minimum, (NAN, NAN2), ("MINIMUM",)),
    "eq": Case(torch.eq, (ints(6), ints(2, 6)), ("EQUAL",)),
    "eq_nan": Case(torch.eq, (NAN, NAN), ("EQUAL",)),
    "ne": Case(lambda a: a != 2, (ints(6),), ("NOT_EQUAL",)),
    "lt": Case(torch.lt, (r(6), r(2, 6)), ("LESS",)),
    "le": Case(lambda a: a <= 0.5, (r(6),), ("LESS_EQUAL",)),
    "gt": Case(torch.gt, (r(6), r(2, 6)), ("GREATER",)),
    "ge": Case(lambda a: a >= 1, (ints(6),), ("GREATER_EQUAL",)),
    "logical": Case(
        lambda a, b: torch.logical_or(torch.logical_and(a > 0, b > 0), torch.logical_not(a > b)), (r(6), r(2, 6)),
        ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"),
    ),
    "where": Case(lambda a, b: torch.where(a > b, a, b), (r(4, 1), r(3)), ("WHERE",)),
    "where_int": Case(lambda a, b: torch.where(a > b, a, b), (ints(4, 1), ints(3)), ("WHERE",)),
    "masked_fill": Case(lambda a: a.masked_fill(a > 0, float("-inf")), (r(4, 3),), ("MASKED_FILL",)),
    "relu": Case(torch.relu, (NAN,), ("RELU",)),
    "tanh": Case(torch.tanh, (r(2, 3) * 5,), ("TANH",)),
    "sigmoid": Case(torch.sigmoid, (r(2, 3) * 50,), ("SIGMOID",)),
    "gelu": Case(F.gelu, (r(4, 3) * 3,), ("GELU",), grown=(1, 9)),
    "gelu_tanh": Case(lambda x: F.gelu(x, approximate="tanh"), (r(4, 3) * 3,), ("GELU",)),
    "exp": Case(torch.exp, (r(5),), ("EXP",)),
    "neg": Case(torch.neg, (r(5),), ("NEG",)),
    "abs": Case(torch.abs, (r(5),), ("ABS",)),
    "sqrt": Case(torch.sqrt, (r(5).abs(),), ("SQRT",)),
    "rsqrt": Case(torch.rsqrt, (r(5).abs() + 0.1,), ("RSQRT",)),
    "softmax_last": Case(lambda x: torch.softmax(x, -1), (r(4, 3) * 30,), ("SOFTMAX",), grown=(1, 9)),
    "softmax_first": Case(lambda x: torch.softmax(x, 0), (r(4, 3, 2),), ("SOFTMAX",), grown=(1, 9)),
    "softmax_0d": Case(lambda x: torch.softmax(x, 0), (r(),), ("SOFTMAX",)),
    "layer_norm": Case(lambda x: F.layer_norm(x, (3,)), (r(4, 3),), ("LAYER_NORM",), grown=(1, 9)),
    "layer_norm_affine": Case(
        lambda x, w, b: F.layer_norm(x, (2, 3), w, b, 1e-3), (r(4, 2, 3), r(2, 3), r(2, 3)), ("LAYER_NORM",)
    ),
    "layer_norm_weight": Case(lambda x, w: F.layer_norm(x, (3,), w), (r(4, 3) + 100, r(3)), ("LAYER_NORM",)),
    "embedding": Case(lambda i, w: F.embedding(i, w), (ints(2, 4).abs(), r(6, 3)), ("EMBEDDING",), grown=(1, 5)),
    "linear": Case(F.linear, (r(2, 4, 9), r(5, 9), r(5)), ("LINEAR",), grown=(1, 7)),
    "linear_1d": Case(F.linear, (r(17), r(5, 17)), ("LINEAR",)),
    "linear_empty": Case(F.linear, (r(0, 3), r(5, 3), r(5)), ("LINEAR",)),
    "mm": Case(torch.mm, (r(4, 3), r(3, 5)), ("MATMUL",), grown=(1, 9)),
    "bmm": Case(torch.bmm, (r(2, 4, 3), r(2, 3, 5)), ("MATMUL",)),
    "matmul_4d": Case(torch.matmul, (r(2, 2, 4, 3), r(2, 1, 3, 5)), ("MATMUL",)),
    "view": Case(lambda x: x.view(-1, 2, 3).sin(), (r(4, 6),), ("RESHAPE",), grown=(1, 9)),
    "view_dynamic": Case(lambda x: torch.relu(x.view(x.shape[0] * 6)), (r(4, 6),), ("RESHAPE",), grown=(1, 9)),
    "permute": Case(lambda x: x.permute(2, 0, 1) + 1, (r(4, 3, 2),), ("PERMUTE",), grown=(1, 9)),
    "permute_bool": Case(lambda x: (x > 0).T.logical_not(), (r(4, 3),), ("PERMUTE",)),
    "transpose": Case(lambda x: x.transpose(0, -1) + 1, (ints(4, 3, 2),), ("PERMUTE",)),
    "expand": Case(lambda x: x.unsqueeze(1).expand(-1, 5, 3) + 1, (r(4, 3),), ("EXPAND",), grown=(1, 9)),
    "slice": Case(lambda x: x[:, 1:-1:2] + 1, (r(6, 5),), ("SLICE",), grown=(1, 9)),
    "slice_rows": Case(lambda x: x[-3:9] + x[2:5], (r(6, 5),), ("SLICE",)),
    "slice_by_size": Case(lambda x, p: x + p[: x.shape[0]], (r(6, 5), r(16, 5)), ("SLICE",), grown=(1, 16)),
    "select": Case(lambda x: x[:, -1] + x[0, 1], (r(6, 5),), ("SELECT",), grown=(1, 9)),
    "cat": Case(lambda x: torch.cat([x, x + 1, x[:1] * 2]), (r(4, 3),), ("CAT",), grown=(1, 9)),
    "cat_last": Case(lambda x, y: torch.cat([x, y], -1) * 2, (r(4, 3), r(4, 2)), ("CAT",)),
    "unsqueeze": Case(lambda x: x.unsqueeze(-1) * 2, (r(4, 3),), ("UNSQUEEZE",), grown=(1, 9)),
    "squeeze": Case(lambda x: x.squeeze(1) * 2, (r(4, 1, 3, 1),), ("SQUEEZE",), grown=(1, 9)),
    "squeeze_some": Case(lambda x: (x * 2).squeeze((0, 1)), (r(1, 4, 1),), ("SQUEEZE",)),
    "clone": Case(lambda x: (x + 1).clone(), (r(3),), ()),
    "sizes": Case(
        lambda x: torch.cat([x.view(2, x.shape[0] // 2, 3)[1], x[: (x.shape[0] + 2) // 2 - 1]]), (r(4, 3),), (), (2, 8)
    ),
}


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "partitioned"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, whole: bool) -> None:
    case = CASES[name]
    if whole and name == "view":
        pytest.skip("sin is not the backend's")
    shapes = None
    if case.grown:
        step = 2 if name == "sizes" else 1
        size = Dim("n", min=1, max=16) if step == 1 else 2 * Dim("half", min=1, max=8)
        shapes = {"inputs": ({0: size}, *({} for _ in case.inputs[1:]))}
    module = Module(case.function)
    program = torch.export.export(module, case.inputs, dynamic_shapes=shapes)
    delegation = DelegationSpec(BACKEND_ID) if whole else ReferencePartitioner()
    lowered = to_edge_transform_and_lower(program, partitioner=[delegation])
    delegates = list(lowered_modules(lowered.exported_program().graph_module))
    blobs = [deserialize(delegate.processed_bytes) for delegate in delegates]
    used = {instruction.opcode.name for blob in blobs for instruction in blob.instructions}
    assert used >= set(case.opcodes)
    calls = [case.inputs, *((_grow(case.inputs[0], size), *case.inputs[1:]) for size in case.grown)]
    pte = lowered.to_executorch().buffer
    results = run_methods(pte, [("forward", inputs) for inputs in calls], backends=[library()])
    for inputs, result in zip(calls, results):
        torch.testing.assert_close(result, [case.function(*inputs)], atol=1e-5, rtol=1e-5, equal_nan=True)


def _grow(tensor: torch.Tensor, size: int) -> torch.Tensor:
    repeats = -(-size // tensor.shape[0])
    return torch.cat([tensor] * repeats)[:size].contiguous()


def test_every_opcode_has_a_case() -> None:
    tested = {opcode for case in CASES.values() for opcode in case.opcodes}
    # What the cases `clone` and `sizes` are for depends on what lowering makes of sizes.
    indirect = {"COPY", "SIZE", "ADD_NUMBERS", "SUB_NUMBERS", "MUL_NUMBERS", "FLOORDIV_NUMBERS"}
    assert tested | indirect == {opcode.name for opcode in Opcode}
    assert len(ENCODERS) > len(Opcode)
