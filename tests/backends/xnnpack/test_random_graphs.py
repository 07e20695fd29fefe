"""Random graphs of operators that XNNPACK takes and of others, in every layout: the official runtime equals eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.xnnpack import check
from torch import nn
from torch.export import Dim

# Every operator takes and gives images [batch, 4, 6, 6], so that any may follow any; none makes large numbers of small
# ones, nor jumps, so that rounding stays what it is.
UNARY: dict[str, Callable[[Random, torch.Tensor], torch.Tensor]] = {
    "convolution": lambda net, x: net.convolution(x),
    "pointwise": lambda net, x: net.pointwise(x),
    "depthwise": lambda net, x: net.depthwise(x),
    "batch norm": lambda net, x: net.norm(x),
    "layer norm": lambda net, x: F.layer_norm(x, (6,)),
    "linear": lambda net, x: net.linear(x),
    "linear of channels": lambda net, x: net.channels(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    "relu": lambda net, x: torch.relu(x),
    "relu6": lambda net, x: F.relu6(x + 3) - 3,
    "tanh": lambda net, x: torch.tanh(x),
    "silu": lambda net, x: F.silu(x),
    "hardswish": lambda net, x: F.hardswish(x),
    "softmax": lambda net, x: torch.softmax(x, 1),
    "max pool": lambda net, x: F.max_pool2d(x, 3, 1, 1),
    "average pool": lambda net, x: F.avg_pool2d(x, 3, 1, 1),
    "resize": lambda net, x: F.interpolate(F.avg_pool2d(x, 2), (6, 6), mode="bilinear"),
    "mean": lambda net, x: x - x.mean((2, 3), keepdim=True),
    "mean of channels": lambda net, x: x - x.mean(1, keepdim=True),
    "gate": lambda net, x: x * torch.sigmoid(net.gate(x.mean((2, 3)))).view(-1, 4, 1, 1),
    "attention": lambda net, x: F.scaled_dot_product_attention(x, x, x),
    "halves": lambda net, x: torch.cat([x[:, 2:], x[:, :2]], 1),
    "rows": lambda net, x: torch.cat([x[:, :, 3:], x[:, :, :3]], 2),
    "padded": lambda net, x: F.pad(x, (1, 0, 0, 2))[:, :, 2:, :6],
    "transposed": lambda net, x: x.transpose(2, 3),
    "flat": lambda net, x: x.flatten(1).tanh().view(-1, 4, 6, 6),
    "shuffled": lambda net, x: F.pixel_unshuffle(F.pixel_shuffle(x, 2).tanh(), 2),
    "constant": lambda net, x: x * net.scale + net.row,
    "cumulative sum, by the CPU": lambda net, x: x.cumsum(-1) / 6,
    "sorted, by the CPU": lambda net, x: x.sort(2).values,
    "flipped, by the CPU": lambda net, x: x.flip(1),
    "gathered, by the CPU": lambda net, x: x[:, :, net.order],
}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": lambda a, b: a * torch.tanh(b),
    "maximum": torch.maximum,
    "joined": lambda a, b: torch.cat([a[:, :2], b[:, 2:]], 1),
    "product": lambda a, b: a @ torch.softmax(b, -2),
}


@dataclass(frozen=True)
class Step:
    """One operator on earlier values, given by index."""

    operator: str
    left: int
    right: int


class Random(nn.Module):
    def __init__(self, steps: Sequence[Step], outputs: Sequence[int]):
        super().__init__()
        torch.manual_seed(0)
        self.steps, self.outputs = steps, outputs
        self.convolution, self.pointwise = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.depthwise, self.norm = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.BatchNorm2d(4)
        self.linear, self.channels, self.gate = nn.Linear(6, 6), nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale, self.row = nn.Parameter(torch.rand(1, 4, 1, 1)), nn.Parameter(torch.rand(6))
        self.register_buffer("order", torch.tensor([3, 1, 5, 0, 0, 2]))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        values = [a, b]
        for step in self.steps:
            left, right = values[step.left % len(values)], values[step.right % len(values)]
            values.append(
                UNARY[step.operator](self, left) if step.operator in UNARY else BINARY[step.operator](left, right)
            )
        return [values[index % len(values)] for index in self.outputs]


STEPS = st.lists(
    st.builds(Step, st.sampled_from([*UNARY, *BINARY]), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14
)  # fmt: skip
OUTPUTS = st.lists(st.integers(0, 30), min_size=1, max_size=4)
OPTIONS = st.sampled_from([{}, {}, {"cost_rule": True}, {"per_op": True}, {"min_nodes": 3}])


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(STEPS, OUTPUTS, st.booleans(), st.booleans(), st.booleans(), OPTIONS)
def test_random_graphs_equal_eager(
    steps: list[Step], outputs: list[int], dynamic: bool, channels_last: bool, weights_too: bool,
    options: dict[str, bool],
) -> None:  # fmt: skip
    model = Random(steps, outputs).eval()
    if weights_too:
        model = model.to(memory_format=torch.channels_last)

    def inputs(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(batch)
        first, second = torch.randn(2, batch, 4, 6, 6)
        return (first.to(memory_format=torch.channels_last) if channels_last else first), second

    batches = (2, 1, 5) if dynamic else (2,)
    batch = {0: Dim("batch", min=1, max=5)} if dynamic else None
    check(
        model, *map(inputs, batches), dynamic_shapes=(batch, batch) if dynamic else None, whole=False,
        rtol=1e-3, atol=1e-3, **options,
    )  # fmt: skip
