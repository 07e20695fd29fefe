"""Channels-last tensors go through operators that work in their order, and are converted where a kernel does not."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.edge_programs import Function, calls, edge_of
from support.emission import emit
from support.modules import Apply
from support.official_runtime import run_method
from support.operator_cases import r

from rules_executorch.lowering.edge.layout import dense_strides, is_channels_last
from rules_executorch.lowering.format.write import pte_bytes


def last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last)


WEIGHT, BIAS = r(4, 3, 3, 3), r(4)

FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y, "divide": lambda x,
    y: x / (y.abs() + 1), "maximum": torch.maximum,
    "number": lambda x, y: x * 2 + 1, "broadcast": lambda x, y: x + y[:, :1], "broadcast a number": lambda x,
    y: x + torch.tensor(2.5), "default order operand": lambda x, y: x + y.contiguous(),
    "relu": lambda x, y: F.relu(x), "hardtanh": lambda x, y: F.hardtanh(x), "sigmoid": lambda x, y: x.sigmoid(),
    "gelu": lambda x, y: F.gelu(x), "elu": lambda x, y: F.elu(x),
    "cat channels": lambda x, y: torch.cat([x, y], 1), "cat rows": lambda x, y: torch.cat([x, y], 2),
    "dtype": lambda x, y: x.double(), "contiguous": lambda x, y: x.contiguous() + 1,
    "max_pool2d": lambda x, y: F.max_pool2d(x, 2), "avg_pool2d": lambda x, y: F.avg_pool2d(x, 2),
    "convolution": lambda x, y: F.conv2d(x, WEIGHT, BIAS, padding=1), "1x1 convolution": lambda x,
    y: F.conv2d(x, WEIGHT[:, :, :1, :1]),
    "depthwise": lambda x, y: F.conv2d(x, WEIGHT[:3, :1], groups=3, padding=1), "transposed convolution": lambda x,
    y: F.conv_transpose2d(x, WEIGHT.transpose(0, 1), stride=2), "softmax": lambda x, y: x.softmax(1),
    "mean": lambda x, y: x.mean((2, 3)), "permute": lambda x, y: x.permute(0, 2, 3, 1), "slice": lambda x,
    y: x[:, 1:], "interpolate": lambda x, y: F.interpolate(x, scale_factor=2), "where": lambda x,
    y: torch.where(x > 0, x, y),
    "batch_norm": lambda x, y: F.batch_norm(x, torch.zeros(3), torch.ones(3)), "group_norm": lambda x,
    y: F.group_norm(x, 3), "flatten": lambda x, y: x.flatten(1), "pixel_shuffle": lambda x,
    y: F.pixel_shuffle(torch.cat([x] * 4, 1), 2),
    "pad": lambda x, y: F.pad(x, (1, 1)), "sum of channels": lambda x, y: x.sum(1, keepdim=True) + x[:, :1],
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(2, 3, 4, 6), (1, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_channels_last_inputs_agree_with_eager_on_the_runtime(name: str, sizes: tuple[int, ...]) -> None:
    inputs = last(r(*sizes)), last(r(*sizes) * 2)
    module = Function(lambda _, x, y: FUNCTIONS[name](x, y))
    expected = module(*copy.deepcopy(inputs))
    (output,) = run_method(pte_bytes(emit(module, inputs)), copy.deepcopy(inputs))
    torch.testing.assert_close(output, expected, atol=1e-4, rtol=1e-4)


def test_a_chain_of_following_operators_is_not_converted() -> None:
    edge = edge_of(lambda x: F.relu(F.max_pool2d(F.conv2d(x, WEIGHT, BIAS), 2) * 2), last(r(1, 3, 8, 8)))
    assert calls(edge) == ["convolution.default", "max_pool2d_with_indices.default", "mul.Scalar", "relu.default"]
    assert is_channels_last(edge.graph.output_node().args[0][0].meta["val"])


def test_conversions_to_and_fro_disappear() -> None:
    edge = edge_of(lambda x: last(last(x * 2).contiguous()) + 1, last(r(1, 3, 4, 4)))
    assert calls(edge).count("clone.default") + calls(edge).count("_to_copy.default") == 2


def test_every_value_is_dense_in_one_of_the_two_orders() -> None:
    edge = edge_of(lambda x: (x.t() + 1, torch.nonzero(x > 0), x.expand(2, 3, 4).sum(0)), r(3, 4))
    for node in edge.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            assert [str(s) for s in val.stride()] == [str(s) for s in dense_strides(val.shape, False)]


def test_sizes_of_one_leave_the_order_to_the_strides() -> None:
    assert not is_channels_last(torch.empty(2, 1, 3, 4).to(memory_format=torch.channels_last))
    assert not is_channels_last(torch.empty(2, 3, 1, 1).to(memory_format=torch.channels_last))
    assert is_channels_last(torch.empty(1, 3, 1, 2).to(memory_format=torch.channels_last))
    assert is_channels_last(torch.empty(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d))
    assert not is_channels_last(torch.empty(3, 4))


@pytest.mark.parametrize("channels_last", [False, True])
def test_what_is_written_to_an_input_has_its_layout(channels_last: bool) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.copy_(x.flip(3) if channels_last else last(x) + 1)
        return x * 2

    x = torch.arange(48.0).view(2, 2, 3, 4)
    x = last(x) if channels_last else x
    outputs = run_method(pte_bytes(emit(Apply(write), (x,))), (x.clone(),))
    torch.testing.assert_close(outputs, [write(x.clone())])
