"""Random programs over views, elementwise operators, reductions, state and branches, in every memory mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.export import Dim

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from support.emission import check

# Every operator takes and gives tensors of 12 elements or of n rows of 4, so that any may follow any.
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "neg": torch.neg,
    "sigmoid": torch.sigmoid,
    "double": lambda a: a * 2,
    "flip": lambda a: a.flip(-1),
    "softmax": lambda a: torch.softmax(a, -1),
    "cumulate": lambda a: a.cumsum(0),
    "up and down": lambda a: a.unsqueeze(1).squeeze(1),
    "two rows": lambda a: a.view(-1, 2).view(-1, 4),
    "flat": lambda a: a.flatten().view(-1, 4),
    "transposed": lambda a: (a.t() + 1).t().contiguous(),
    "first row": lambda a: a[0:1] + a,
    "last row": lambda a: a[-1] * a,
    "halves": lambda a: torch.cat([a[:, 2:], a[:, :2]], 1),
    "split": lambda a: torch.cat(torch.split(a, [1, 3], 1)[::-1], 1),
    "clone": torch.clone,
    "mean": lambda a: a - a.mean(0, keepdim=True),
    "branch": lambda a: torch.cond(a.sum() > 0, lambda a: a * 2 - 1, lambda a: a.neg().exp(), (a,)),
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "where": lambda a, b: torch.where(a > b, a, b * 0.5),
    "cat": lambda a, b: torch.cat([a[:, :2], b[:, 2:]], 1),
}


@dataclass(frozen=True)
class Step:
    """One operator on earlier values, given by index; `store` also writes the result to the state."""

    operator: str
    left: int
    right: int
    store: bool = False


class Program(torch.nn.Module):
    def __init__(self, steps: list[Step], outputs: list[int], stateful: bool):
        super().__init__()
        self.steps, self.results, self.stateful = steps, outputs, stateful
        self.register_buffer("table", torch.linspace(-1, 1, 12).view(3, 4))
        self.register_buffer("state", torch.linspace(1, -2, 12).view(3, 4))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        values = [a, b, self.table.clone(), self.state.clone()] if self.stateful else [a, b]
        for step in self.steps:
            left, right = values[step.left % len(values)], values[step.right % len(values)]
            value = UNARY[step.operator](left) if step.operator in UNARY else BINARY[step.operator](left, right)
            values.append(value)
            if step.store and self.stateful:
                self.state.copy_(value)
        return [values[index % len(values)] for index in self.results]


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([*UNARY, *BINARY]),
        st.integers(0, 20),
        st.integers(0, 20),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=10,
)
OUTPUTS = st.lists(st.integers(0, 20), min_size=1, max_size=4)
CONFIGS = st.builds(EmitConfig, st.builds(MemoryConfig, st.booleans(), st.booleans()))
SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 4), torch.randn(rows, 4)


@SETTINGS
@given(STEPS, OUTPUTS, CONFIGS)
def test_static_programs_with_state_equal_eager(steps: list[Step], outputs: list[int], config: EmitConfig) -> None:
    check(Program(steps, outputs, True), inputs(3), inputs(3), inputs(3), config=config, atol=1e-4)


@SETTINGS
@given(STEPS, OUTPUTS, CONFIGS)
def test_programs_with_a_dynamic_size_equal_eager(steps: list[Step], outputs: list[int], config: EmitConfig) -> None:
    rows = {0: Dim("rows", min=1, max=6)}
    runs = [inputs(count) for count in (3, 6, 1, 2)]
    check(Program(steps, outputs, False), *runs, dynamic_shapes=(rows, rows), config=config, atol=1e-4)
