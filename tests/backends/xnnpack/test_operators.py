"""Every operator that XNNPACK takes, on the official runtime against eager: floats and halves, ranks, broadcasting."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support.xnnpack import check, module

X = torch.linspace(-3, 3, 24)
SHAPES = {"vector": (24,), "matrix": (4, 6), "rows": (2, 3, 4), "image": (1, 3, 4, 2), "five": (1, 2, 3, 2, 2)}
DTYPES = {"float": (torch.float32, 1e-4), "half": (torch.float16, 2e-2)}

UNARY = {
    "abs": torch.abs, "ceil": torch.ceil, "clamp": lambda x: x.clamp(-1, 0.5), "clamp_min": lambda x: x.clamp(min=0.25),
    "cos": torch.cos, "elu": F.elu, "exp": torch.exp, "floor": torch.floor, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
    "hardtanh": F.hardtanh, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "neg": torch.neg, "relu": F.relu,
    "relu6": F.relu6, "sigmoid": torch.sigmoid, "silu": F.silu, "sin": torch.sin, "square": lambda x: x * x,
    "pow2": lambda x: x**2, "pow3": lambda x: x**3, "tanh": torch.tanh, "softmax": lambda x: F.softmax(x, -1),
    "softmax_first": lambda x: F.softmax(x, 0), "add_number": lambda x: x + 2.5, "rsub": lambda x: 1 - x,
    "mul_number": lambda x: x * 0.5, "div_number": lambda x: x / 3,
    "floor_div": lambda x: torch.div(x, 0.7, rounding_mode="floor"),
    "minimum": lambda x: torch.minimum(x, -x), "selu": F.selu, "silu_sum": lambda x: F.silu(x).sum(-1),
    "exp2": torch.exp2, "mean": lambda x: x.mean(-1), "mean_all": lambda x: x.mean(), "var": lambda x: x.var(-1),
}  # fmt: skip
POSITIVE = {
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "log": torch.log, "reciprocal": torch.reciprocal, "log2": torch.log2,
    "log10": torch.log10, "pow_half": lambda x: x**0.5, "pow_minus": lambda x: x**-1.0, "div": lambda x: x / (x + 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name: str, dtype: str) -> None:
    if name in ("var", "floor_div") and dtype == "half":
        pytest.skip("rounded halves fall on either side of a step")
    type_, tolerance = DTYPES[dtype]
    inputs = [X.reshape(shape).to(type_) for shape in SHAPES.values()]
    check(module(lambda *xs: tuple(UNARY[name](x) for x in xs)), inputs, rtol=tolerance, atol=tolerance, whole=False)
    check(module(UNARY[name]), (inputs[2],), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POSITIVE)
def test_unary_operators_of_positive_numbers(name: str, dtype: str) -> None:
    type_, tolerance = DTYPES[dtype]
    check(module(POSITIVE[name]), ((X.abs() + 0.1).reshape(2, 3, 4).to(type_),), rtol=tolerance, atol=tolerance)


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "minimum": torch.minimum, "add_alpha": lambda a, b: torch.add(a, b, alpha=2.5),
    "sub_alpha": lambda a, b: torch.sub(a, b, alpha=0.5),
    "rsub": torch.rsub, "clamp": lambda a, b: a.clamp(min=b),
}  # fmt: skip
PAIRS = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1,), (2, 3)), ((2, 1, 4), (3, 1)), ((2, 3, 4, 5), (3, 1, 1)),
    ((1, 3, 4, 5), (2, 3, 1, 5)), ((), (3, 2)), ((1, 2, 1, 2, 1), (2, 1, 3, 1, 2)),
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators_broadcast(name: str) -> None:
    inputs = [torch.randn(shape).abs() + 0.5 for pair in PAIRS for shape in pair]

    def apply(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(BINARY[name](a, b) for a, b in zip(tensors[::2], tensors[1::2]))

    check(module(apply), inputs, whole=False)


@pytest.mark.parametrize(
    "function, shapes",
    [
        (torch.mm, [(3, 4), (4, 5)]),
        (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
        (torch.matmul, [(2, 3, 4), (4, 5)]),
        (torch.matmul, [(2, 1, 3, 4), (1, 3, 4, 5)]),
        (torch.matmul, [(3, 4), (2, 4, 5)]),
        (lambda a, b: a @ b.transpose(-1, -2), [(2, 2, 3, 4), (2, 2, 5, 4)]),
        (torch.addmm, [(5,), (3, 4), (4, 5)]),
        (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), [(3, 5), (3, 4), (4, 5)]),
        (F.scaled_dot_product_attention, [(1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 3)]),
        (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            [(1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 3)],
        ),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), [(2, 5, 4), (2, 6, 4), (2, 6, 3)]),
    ],
)  # fmt: skip
def test_products_of_activations(function, shapes) -> None:  # type: ignore[no-untyped-def]
    check(module(function), [torch.randn(shape) for shape in shapes])


VIEWS = {
    "view": lambda x: x.view(6, 20) + 1, "permute": lambda x: x.permute(3, 0, 2, 1) * 2,
    "transpose": lambda x: x.mT.exp(),
    "squeeze": lambda x: x[:1].squeeze(0).neg(), "unsqueeze": lambda x: x.unsqueeze(1).abs(),
    "slice": lambda x: x[:, 1:, -3:] + 1,
    "select": lambda x: x[:, -1].exp(), "cat": lambda x: torch.cat([x, -x, x + 1], 2),
    "cat7": lambda x: torch.cat([x * i for i in range(7)], 1),
    "stack": lambda x: torch.stack([x, -x], 1), "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=0.5),
    "split": lambda x: x.split(2, -1)[1] * 2,
    "chunk": lambda x: torch.cat(x.chunk(2, 2)[::-1], 2), "unbind": lambda x: x.unbind(1)[1] - x.unbind(1)[0],
    "expand": lambda x: x[:, :, :1].expand(2, 3, 4, 5) * x,
    "repeat": lambda x: x.repeat(1, 2, 1, 1), "flatten": lambda x: x.flatten(1) * 2,
    "shuffle": lambda x: F.pixel_shuffle(x.view(1, 12, 2, 5), 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x[:, :, :, :4], 2), "amax": lambda x: x.amax((1, 2)),
    "max": lambda x: x.max(2).values,
    "clone": lambda x: x.clone() + 1, "to_half": lambda x: (x.half() * 2).float(),
    "sum": lambda x: x.sum((1, 3)), "mean": lambda x: x.mean((2, 3), keepdim=True), "mean2": lambda x: x.mean((2, 3)),
    "mean1": lambda x: x.mean(1),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_parts_joins_and_reductions(name: str) -> None:
    loose = 1e-2 if name == "to_half" else 1e-4
    check(module(VIEWS[name]), (torch.randn(2, 3, 4, 5),), atol=loose, rtol=loose)


LAYERS = {
    "linear": (torch.nn.Linear(6, 5), (2, 3, 6)),
    "linear_without_bias": (torch.nn.Linear(6, 5, bias=False), (6,)),
    "conv2d": (torch.nn.Conv2d(4, 6, 3, padding=1), (2, 4, 7, 8)),
    "conv2d_strided": (torch.nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2)), (1, 4, 9, 8)),
    "conv2d_grouped": (torch.nn.Conv2d(4, 6, 3, groups=2), (1, 4, 7, 8)),
    "depthwise": (torch.nn.Conv2d(4, 8, 3, groups=4, padding=1, stride=2), (1, 4, 7, 8)),
    "depthwise_dilated": (torch.nn.Conv2d(4, 4, 3, groups=4, dilation=2, bias=False), (1, 4, 7, 8)),
    "conv1d": (torch.nn.Conv1d(4, 6, 3, padding=1, stride=2), (2, 4, 9)),
    "conv1d_depthwise": (torch.nn.Conv1d(4, 4, 3, groups=4), (2, 4, 9)),
    "transposed": (torch.nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (1, 4, 5, 6)),
    "transposed_grouped": (torch.nn.ConvTranspose2d(4, 6, 3, 2, groups=2), (1, 4, 5, 6)),
    "transposed1d": (torch.nn.ConvTranspose1d(4, 6, 3, 2), (1, 4, 5)),
    "max_pool": (torch.nn.MaxPool2d(3, 2, 1), (1, 4, 7, 8)),
    "max_pool_ceil": (torch.nn.MaxPool2d(3, 2, ceil_mode=True), (1, 4, 8, 8)),
    "max_pool_dilated": (torch.nn.MaxPool2d(2, 1, dilation=2), (1, 4, 8, 8)),
    "avg_pool": (torch.nn.AvgPool2d(2), (1, 4, 8, 8)),
    "avg_pool_padded": (torch.nn.AvgPool2d(3, 2, 1), (1, 4, 8, 8)),
    "avg_pool_padding_left_out": (torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 4, 8, 8)),
    "avg_pool_divisor": (torch.nn.AvgPool2d(3, 2, 1, divisor_override=5), (1, 4, 8, 8)),
    "avg_pool_unbatched": (torch.nn.AvgPool2d(2), (4, 8, 8)),
    "global_pool": (torch.nn.AdaptiveAvgPool2d(1), (2, 4, 5, 6)),
    "adaptive_pool": (torch.nn.AdaptiveAvgPool2d((2, 3)), (2, 4, 4, 6)),
    "upsample": (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 4, 5, 6)),
    "upsample_corners": (torch.nn.UpsamplingBilinear2d((9, 7)), (1, 4, 5, 6)),
    "layer_norm": (torch.nn.LayerNorm(6), (2, 3, 6)),
    "layer_norm_of_planes": (torch.nn.LayerNorm((3, 6)), (2, 3, 6)),
    "group_norm": (torch.nn.GroupNorm(2, 4), (2, 4, 5, 6)),
    "batch_norm": (torch.nn.BatchNorm2d(4), (2, 4, 5, 6)),
    "batch_norm1d": (torch.nn.BatchNorm1d(4), (3, 4)),
    "rms_norm": (torch.nn.RMSNorm(6), (2, 3, 6)),
    "prelu": (torch.nn.PReLU(4), (2, 4, 5, 6)),
    "prelu_single": (torch.nn.PReLU(), (2, 4, 5)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, dtype: str) -> None:
    layer, shape = LAYERS[name]
    type_, tolerance = DTYPES[dtype]
    layer = layer.to(type_)
    if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
        layer.running_mean.uniform_(-1, 1)
        layer.running_var.uniform_(0.5, 2)
    check(layer, (torch.randn(shape).to(type_),), rtol=tolerance, atol=tolerance)
