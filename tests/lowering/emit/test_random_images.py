"""Random programs over images: layouts, dtypes, several results, writes to inputs and a dynamic batch, against eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.official_runtime import run_method
from torch.export import Dim
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering import to_edge

Tensor = torch.Tensor

WEIGHT = torch.linspace(-0.5, 0.5, 4 * 4 * 3 * 3).view(4, 4, 3, 3)

# Every operator takes a tensor of any dtype with n × 4 × 6 × 6 elements, and gives a list of such.
OPERATORS: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "relu": lambda a, b: [torch.relu(a)],
    "add": lambda a, b: [a + b],
    "where": lambda a, b: [torch.where(a > b, a, b)],
    "divide": lambda a, b: [a / (b.abs() + 1)],
    "convolution": lambda a, b: [F.conv2d(a.float(), WEIGHT, padding=1)],
    "pooling": lambda a, b: [F.max_pool2d(a.float(), 3, 1, 1), F.avg_pool2d(a.float(), 3, 1, 1)],
    "batch norm": lambda a, b: [F.batch_norm(a.float(), WEIGHT[0, :, 0, 0], WEIGHT[0, :, 1, 0].abs() + 1)],
    "channels last": lambda a, b: [a.to(memory_format=torch.channels_last)],
    "contiguous": lambda a, b: [a.contiguous()],
    "double": lambda a, b: [a.double()],
    "half": lambda a, b: [a.float().clamp(-9, 9).half()],
    "integer": lambda a, b: [a.float().clamp(-9, 9).to(torch.int32)],
    "byte": lambda a, b: [a.clamp(0, 9).to(torch.uint8)],
    "greatest": lambda a, b: [x.expand(a.shape).clone() for x in a.max(1, keepdim=True)],
    "top": lambda a, b: list(a.float().topk(6, 3)),
    "halves": lambda a, b: [torch.cat(tuple(reversed(a.split(2, 1))), 1), torch.stack(a.unbind(1), 1)],
    "turned": lambda a, b: [a.transpose(2, 3), a.flip(3)],
    "sum": lambda a, b: [a + a.sum((2, 3), keepdim=True).clamp(0, 9), a.cumsum(1).clamp(0, 9)],
}


@dataclass(frozen=True)
class Step:
    """An operator on two earlier values, by index; `store` writes what it gives to the first input as well."""

    operator: str
    left: int
    right: int
    store: bool


class Program(torch.nn.Module):
    def __init__(self, steps: list[Step], outputs: list[int]):
        super().__init__()
        self.steps, self.outputs = steps, outputs

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        values = list(inputs)
        for step in self.steps:
            left, right = (values[index % len(values)] for index in (step.left, step.right))
            values += OPERATORS[step.operator](left, right)
            if step.store:
                inputs[0].copy_(values[-1])
        return [values[index % len(values)] + 0 for index in self.outputs]


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(list(OPERATORS)),
        st.integers(0, 20),
        st.integers(0, 20),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=8,
)
OUTPUTS = st.lists(st.integers(0, 20), min_size=1, max_size=4)
SETTINGS = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def inputs(count: int, last: bool) -> tuple[Tensor, ...]:
    """Integers as floats, so that conversions and comparisons are exact, in one of two layouts; and bytes."""
    generator = torch.Generator().manual_seed(count)
    image, mask = (torch.randint(-4, 5, (count, 4, 6, 6), generator=generator) for _ in range(2))
    layout = torch.channels_last if last else torch.contiguous_format
    return image.float().contiguous(memory_format=layout), mask.abs().to(torch.uint8)


@SETTINGS
@given(STEPS, OUTPUTS, st.booleans(), st.booleans())
def test_they_equal_eager(steps: list[Step], outputs: list[int], last: bool, dynamic: bool) -> None:
    program = Program(steps, outputs)
    batch = {0: Dim("batch", min=1, max=5)}
    exported = torch.export.export(program, inputs(3, last), dynamic_shapes=((batch, batch),) if dynamic else None)
    pte = to_edge(exported).to_executorch().buffer
    for count in (3, 5, 2) if dynamic else (3,):
        given_here = inputs(count, last)
        expected = tree_leaves(program(*copy.deepcopy(given_here)))
        for output, wanted in zip(run_method(pte, given_here), expected, strict=True):
            tolerance = 2e-2 if wanted.dtype == torch.float16 else 1e-4
            torch.testing.assert_close(output, wanted, atol=tolerance, rtol=tolerance)
