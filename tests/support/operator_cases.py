"""For each kernel of the stock runtime, calls that must come to it: the table of the tests of operators.

A call is a function of tensors and its inputs; what else it takes is in the function. Several calls
of one kernel differ in dtypes, broadcasting, sizes and settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

aten = torch.ops.aten

Call = tuple[Callable[..., Any], tuple[Any, ...]]


def r(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Seeded values of either sign: normally distributed, or integers from -9 to 9."""
    generator = torch.Generator().manual_seed(sum(size * 31**i for i, size in enumerate(sizes)))
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 10, sizes, generator=generator).to(dtype)


def p(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Like r, but positive and away from zero."""
    return r(*sizes, dtype=dtype).abs() + (0.5 if dtype.is_floating_point else 1)


def unit(*sizes: int) -> torch.Tensor:
    """Values inside (-1, 1)."""
    return torch.tanh(r(*sizes)) * 0.9


def i(*sizes: int, below: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Indices."""
    return torch.randint(0, below, sizes, generator=torch.Generator().manual_seed(below)).to(dtype)


def shared(function: Callable[..., Any], *inputs: tuple[Any, ...]) -> list[Call]:
    """One function on several inputs."""
    return [(function, each) for each in inputs]


def unary(function: Callable[..., Any], values: Callable[..., torch.Tensor] = r, integers: bool = True) -> list[Call]:
    """Float dtypes, an integer dtype, no dimensions, no elements, channels-last."""
    inputs = [values(2, 3), values(2, 3).half(), values(2, 3).double(), values(4), values(3, 0), values(1)[0]]
    inputs.append(values(1, 3, 4, 5).to(memory_format=torch.channels_last))
    if integers:
        inputs += [p(2, 3, dtype=torch.int64), p(5, dtype=torch.int32)]
    return [(function, (x,)) for x in inputs]


def binary(function: Callable[..., Any], values: Callable[..., torch.Tensor] = r) -> list[Call]:
    """Broadcasting, mixed and equal dtypes, no dimensions, no elements."""
    pairs = [
        (values(2, 3), values(2, 3)), (values(2, 3), values(3)), (values(4, 1), values(1, 5)), (values(2, 3), p(1)[0]),
        (values(0, 3), values(3)), (values(2, 3).half(), p(2, 3).half()), (values(2, 3).double(), p(3).double()),
        (p(2, 3, dtype=torch.int64), p(3, dtype=torch.int64)), (p(4, dtype=torch.int32), p(4, dtype=torch.int32)),
        (p(2, 3, dtype=torch.int64), p(2, 3)), (p(2, 3), p(2, 3).double()),
    ]  # fmt: skip
    return shared(function, *pairs)


def comparison(tensor: Callable[..., Any]) -> list[Call]:
    return binary(tensor) + shared(tensor, (r(3, dtype=torch.bool), r(3, dtype=torch.bool)))


def scalar_comparison(function: Callable[..., Any]) -> list[Call]:
    return [
        (lambda x: function(x, 0.5), (r(2, 3),)), (lambda x: function(x, 1), (r(4, dtype=torch.int64),)),
        (lambda x: function(x, 0.5), (r(4, dtype=torch.int32),)), (lambda x: function(x, 1), (r(2, 3).half(),)),
    ]  # fmt: skip


def scalar_arithmetic(function: Callable[..., Any]) -> list[Call]:
    return [
        (lambda x: function(x, 2.5), (r(2, 3),)), (lambda x: function(x, 2), (r(2, 3),)),
        (lambda x: function(x, 3), (r(4, dtype=torch.int64),)),
        (lambda x: function(x, 2.5), (r(4, dtype=torch.int32),)),
        (lambda x: function(x, 2), (r(2, 3).half(),)), (lambda x: function(x, 2.0), (r(0, 3),)),
    ]  # fmt: skip


def bits(function: Callable[..., Any]) -> list[Call]:
    pairs = [(r(2, 3, dtype=d), r(3, dtype=d)) for d in (torch.int64, torch.int32, torch.uint8, torch.bool)]
    return shared(function, *pairs)


def bits_scalar(function: Callable[..., Any]) -> list[Call]:
    return [(lambda x: function(x, 6), (r(5, dtype=torch.int64),)),
        (lambda x: function(x, 3), (r(5, dtype=torch.uint8),))]


def shifts(function: Callable[..., Any]) -> list[Call]:
    return shared(function, (p(2, 3, dtype=torch.int64), i(3, below=5)),
        (p(4, dtype=torch.int32), i(4, below=3, dtype=torch.int32)))


def pads(mode: str, *calls: tuple[tuple[int, ...], tuple[int, ...]]) -> list[Call]:
    return [(lambda x, edges=edges: F.pad(x, edges, mode=mode), (r(*sizes),)) for sizes, edges in calls]


def _norm_stats(channels: int) -> tuple[torch.Tensor, ...]:
    return p(channels), r(channels), r(channels), p(channels)


KERNELS: dict[str, list[Call]] = {
    # Elementwise, one operand.
    "abs.out": unary(torch.abs), "acos.out": unary(torch.acos, unit, False),
    "acosh.out": unary(torch.acosh, lambda *s: p(*s) + 1),
    "asin.out": unary(torch.asin, unit, False), "asinh.out": unary(torch.asinh), "atan.out": unary(torch.atan),
    "atanh.out": unary(torch.atanh, unit, False), "ceil.out": unary(torch.ceil), "cos.out": unary(torch.cos),
    "cosh.out": unary(torch.cosh), "erf.out": unary(torch.erf), "exp.out": unary(torch.exp, unit),
    "expm1.out": unary(torch.expm1, unit),
    "floor.out": unary(torch.floor), "isinf.out": unary(torch.isinf), "isnan.out": unary(torch.isnan),
    "log.out": unary(torch.log, p),
    "log10.out": unary(torch.log10, p), "log1p.out": unary(torch.log1p, p), "log2.out": unary(torch.log2, p),
    "logical_not.out": unary(torch.logical_not), "neg.out": unary(torch.neg),
    "reciprocal.out": unary(torch.reciprocal, p),
    "relu.out": unary(torch.relu), "round.out": unary(torch.round), "rsqrt.out": unary(torch.rsqrt, p),
    "sigmoid.out": unary(torch.sigmoid), "sign.out": unary(torch.sign), "sin.out": unary(torch.sin),
    "sinh.out": unary(torch.sinh),
    "sqrt.out": unary(torch.sqrt, p), "tan.out": unary(torch.tan, unit), "tanh.out": unary(torch.tanh),
    "trunc.out": unary(torch.trunc),
    "bitwise_not.out": shared(torch.bitwise_not, (r(4, dtype=torch.int64),), (r(4, dtype=torch.bool),),
        (r(4, dtype=torch.uint8),)),
    "elu.out": unary(F.elu, integers=False) + [(lambda x: F.elu(x, 0.5), (r(5),)), (F.selu, (r(5),))],
    "gelu.out": unary(F.gelu, integers=False) + [(lambda x: F.gelu(x, approximate="tanh"), (r(5),))],
    "glu.out": [(F.glu, (r(4, 6),)), (lambda x: F.glu(x, 0), (r(4, 6),))],
    "hardtanh.out": [(F.hardtanh, (r(2, 3),)), (lambda x: F.hardtanh(x, -0.3, 0.2), (r(2, 3),)),
        (F.relu6, (r(5) * 5,))],
    "leaky_relu.out": [(F.leaky_relu, (r(2, 3),)), (lambda x: F.leaky_relu(x, 0.3), (r(2, 3).half(),))],
    "logit.out": [(torch.logit, (torch.sigmoid(r(2, 3)),)), (lambda x: torch.logit(x, 0.1), (torch.sigmoid(r(2, 3)),))],
    "clamp.out": [
        (lambda x: x.clamp(-0.5, 0.5), (r(2, 3),)), (lambda x: x.clamp(min=0), (r(4, dtype=torch.int64),)),
        (lambda x: x.clamp(max=0.25), (r(2, 3),)), (lambda x: x.clamp(0, 3), (r(2, 3),)),
    ],
    "clamp.Tensor_out": [(torch.clamp, (r(2, 3), -p(3), p(2, 1))),
        (lambda x, y: torch.clamp(x, max=y), (r(2, 3), r(3)))],
    # Elementwise, two operands.
    "add.out": binary(torch.add) + [(lambda x, y: torch.add(x, y, alpha=2), (r(2, 3), r(3)))],
    "sub.out": binary(torch.sub) + [(lambda x, y: torch.sub(x, y, alpha=2), (r(2, 3), r(3)))],
    "mul.out": binary(torch.mul) + shared(torch.mul, (r(3, dtype=torch.bool), r(3))),
    "div.out": binary(torch.div, p),
    "div.out_mode": binary(lambda x, y: torch.div(x, y, rounding_mode="floor"), p)
    + binary(lambda x, y: torch.div(x, y, rounding_mode="trunc"), p),
    "floor_divide.out": binary(torch.floor_divide, p),
    "fmod.Tensor_out": binary(torch.fmod, p),
    "remainder.Tensor_out": [call for call in binary(torch.remainder,
        p) if any(x.is_floating_point() for x in call[1])],
    "maximum.out": binary(torch.maximum), "minimum.out": binary(torch.minimum),
    "atan2.out": binary(torch.atan2, p),
    "pow.Tensor_Tensor_out": [call for call in binary(torch.pow, p) if call[1][0].dtype != torch.int32],
    "logical_and.out": binary(torch.logical_and), "logical_or.out": binary(torch.logical_or),
    "logical_xor.out": binary(torch.logical_xor),
    "add.Scalar_out": scalar_arithmetic(torch.add), "sub.Scalar_out": scalar_arithmetic(torch.sub),
    "mul.Scalar_out": scalar_arithmetic(torch.mul), "div.Scalar_out": scalar_arithmetic(torch.div),
    "div.Scalar_mode_out": scalar_arithmetic(lambda x, s: torch.div(x, s, rounding_mode="floor")),
    "fmod.Scalar_out": scalar_arithmetic(torch.fmod),
    "remainder.Scalar_out": [call for call in scalar_arithmetic(torch.remainder) if call[1][0].is_floating_point()],
    "pow.Tensor_Scalar_out": [
        (lambda x: x**2, (r(2, 3),)), (lambda x: x**0.5, (p(2, 3),)), (lambda x: x**3, (r(4, dtype=torch.int64),)),
    ],
    "pow.Scalar_out": [(lambda x: 2.0**x, (r(2, 3),)), (lambda x: 2**x, (p(4, dtype=torch.int64),))],
    "rsub.Scalar_out": [(lambda x: 1 - x, (r(2, 3),)), (lambda x: 2.5 - x, (r(2, 3).half(),)),
        (lambda x: 1 - x, (r(3, dtype=torch.int64),))],
    "eq.Tensor_out": comparison(torch.eq), "ne.Tensor_out": comparison(torch.ne), "lt.Tensor_out": comparison(torch.lt),
    "le.Tensor_out": comparison(torch.le), "gt.Tensor_out": comparison(torch.gt), "ge.Tensor_out": comparison(torch.ge),
    "eq.Scalar_out": scalar_comparison(torch.eq), "ne.Scalar_out": scalar_comparison(torch.ne),
    "lt.Scalar_out": scalar_comparison(torch.lt), "le.Scalar_out": scalar_comparison(torch.le),
    "gt.Scalar_out": scalar_comparison(torch.gt), "ge.Scalar_out": scalar_comparison(torch.ge),
    "bitwise_and.Tensor_out": bits(torch.bitwise_and), "bitwise_or.Tensor_out": bits(torch.bitwise_or),
    "bitwise_xor.Tensor_out": bits(torch.bitwise_xor), "bitwise_and.Scalar_out": bits_scalar(torch.bitwise_and),
    "bitwise_or.Scalar_out": bits_scalar(torch.bitwise_or), "bitwise_xor.Scalar_out": bits_scalar(torch.bitwise_xor),
    "bitwise_left_shift.Tensor_out": shifts(torch.bitwise_left_shift),
    "bitwise_right_shift.Tensor_out": shifts(torch.bitwise_right_shift),
    "bitwise_left_shift.Tensor_Scalar_out": [(lambda x: x << 2, (p(4, dtype=torch.int64),))],
    "bitwise_right_shift.Tensor_Scalar_out": [(lambda x: x >> 1, (p(4, dtype=torch.int64),))],
    "where.self_out": [
        (torch.where, (r(2, 3, dtype=torch.bool), r(2, 3), r(3))),
        (lambda c, x: torch.where(c, x, 0.0), (r(2, 3, dtype=torch.bool), r(2, 3))),
        (torch.where, (r(3, dtype=torch.bool), r(3, dtype=torch.int64), r(3, dtype=torch.int64))),
    ],
    "masked_fill.Scalar_out": [
        (lambda x, m: x.masked_fill(m, 2.0), (r(2, 3), r(2, 3, dtype=torch.bool))),
        (lambda x, m: x.masked_fill(m, -1), (r(2, 3, dtype=torch.int64), r(3, dtype=torch.bool))),
        (lambda x, m: x.masked_fill(m, float("-inf")), (r(2, 3), r(2, 1, dtype=torch.bool))),
    ],
    # Reductions.
    "sum.IntList_out": [
        (lambda x: x.sum(1), (r(2, 3, 4),)), (lambda x: x.sum((0, 2), keepdim=True), (r(2, 3, 4),)),
        (torch.sum, (r(2, 3),)),
        (torch.sum, (r(4, dtype=torch.int64),)), (torch.sum, (r(4, dtype=torch.bool),)),
        (lambda x: x.sum(0), (r(0, 3),)),
        (lambda x: x.sum(0, dtype=torch.float64), (r(2, 3),)), (lambda x: x.sum(0), (r(2, 3).half(),)),
        (lambda x: x.sum(0), (r(1)[0],)),
    ],
    "mean.out": [
        (lambda x: x.mean(1), (r(2, 3, 4),)), (lambda x: x.mean((0, -1), keepdim=True), (r(2, 3, 4),)),
        (lambda x: x.mean(0), (r(2, 3).half(),)),
        (lambda x: x.mean((2, 3)), (r(2, 3, 4, 5).to(memory_format=torch.channels_last),)),
    ],
    "mean.dtype_out": [(torch.mean, (r(2, 3),)),
        (lambda x: torch.mean(x, dtype=torch.float32), (r(4, dtype=torch.int64),))],
    "amax.out": [(lambda x: x.amax(1), (r(2, 3, 4),)), (lambda x: x.amax((0, 2), True), (r(2, 3, 4),)),
        (lambda x: x.amax(0), (r(3, 2, dtype=torch.int64),))],
    "amin.out": [(lambda x: x.amin(1), (r(2, 3, 4),)), (lambda x: x.amin((0, 2), True), (r(2, 3, 4),)),
        (lambda x: x.amin(0), (r(3, 2, dtype=torch.int64),))],
    "max.unary_out": [(torch.max, (r(2, 3),)), (torch.max, (r(4, dtype=torch.int64),))],
    "min.unary_out": [(torch.min, (r(2, 3),)), (torch.min, (r(4, dtype=torch.int64),))],
    "max.dim_max": [(lambda x: tuple(x.max(1)), (r(2, 3, 4),)), (lambda x: tuple(x.max(-1, keepdim=True)), (r(2, 5),))],
    "min.dim_min": [(lambda x: tuple(x.min(1)), (r(2, 3, 4),)), (lambda x: tuple(x.min(-1, keepdim=True)), (r(2, 5),))],
    "argmax.out": [(torch.argmax, (r(2, 3),)), (lambda x: x.argmax(1, keepdim=True), (r(2, 3),)),
        (lambda x: x.argmax(0), (r(5).half(),))],
    "argmin.out": [(torch.argmin, (r(2, 3),)), (lambda x: x.argmin(1, keepdim=True), (r(2, 3),))],
    "any.all_out": [(torch.any, (r(2, 3, dtype=torch.bool),)), (torch.any, (r(3),))],
    "any.out": [(lambda x: x.any(1), (r(2, 3, dtype=torch.bool),)), (lambda x: x.any(0, keepdim=True), (r(2, 3),))],
    "any.dims_out": [(lambda x: torch.any(x, (0, 2)), (r(2, 3, 4, dtype=torch.bool),))],
    "prod.out": [(torch.prod, (r(2, 3),)), (torch.prod, (p(3, dtype=torch.int64),))],
    "prod.int_out": [(lambda x: x.prod(1), (r(2, 3),)),
        (lambda x: x.prod(0, keepdim=True), (p(2, 3, dtype=torch.int64),))],
    "var.correction_out": [(lambda x: x.var(1, correction=2), (r(2, 5),)),
        (lambda x: x.var((0, 1), correction=0, keepdim=True), (r(2, 5),)), (torch.std, (r(2, 5),))],
    "var.out": [(lambda x: aten.var.dim(x, [1], False), (r(2, 5),))],
    "var_mean.correction_out": [(lambda x: torch.var_mean(x, 1), (r(2, 5),)),
        (lambda x: torch.var_mean(x, (0, 1), correction=0), (r(2, 5),))],
    "cumsum.out": [(lambda x: x.cumsum(1), (r(2, 5),)), (lambda x: x.cumsum(0), (r(4, dtype=torch.int64),)),
        (lambda x: x.cumsum(0), (r(4, dtype=torch.bool),))],
    "_softmax.out": [(lambda x: x.softmax(-1), (r(2, 5),)), (lambda x: x.softmax(0), (r(2, 5),)),
        (lambda x: x.softmax(1), (r(2, 3, 4).half(),))],
    "_log_softmax.out": [(lambda x: x.log_softmax(-1), (r(2, 5),)), (lambda x: x.log_softmax(0), (r(2, 5),))],
    "topk.values": [(lambda x: tuple(x.topk(2)), (r(3, 5),)),
        (lambda x: tuple(x.topk(2, 0, largest=False)), (r(5, 3),)), (lambda x: x.sort()[0], (r(3, 7),))],
    # Products of matrices, convolutions, pooling, normalisation.
    "mm.out": [(torch.mm, (r(2, 3), r(3, 4))), (torch.addmm, (r(4), r(2, 3), r(3, 4))),
        (torch.mm, (r(2, 3).half(), r(3, 4).half()))],
    "bmm.out": [(torch.bmm, (r(2, 3, 4), r(2, 4, 5))), (torch.matmul, (r(2, 3, 4, 5), r(2, 1, 5, 2))),
        (torch.baddbmm, (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)))],
    "linear.out": [
        (F.linear, (r(2, 3), r(4, 3), r(4))), (F.linear, (r(2, 5, 3), r(4, 3))), (F.linear, (r(3), r(4, 3), r(4))),
        (lambda x, w: x @ w.t(), (r(2, 3), r(4, 3))),
        (lambda b, x, w: torch.addmm(b, x, w.t()), (r(4), r(2, 3), r(4, 3))),
        (F.linear, (r(0, 3), r(4, 3), r(4))),
    ],
    "convolution.out": [
        (F.conv2d, (r(1, 3, 8, 8), r(4, 3, 3, 3), r(4))),
        (lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=2), (r(2, 3, 9, 9), r(4, 3, 3, 3))),
        (lambda x, w: F.conv2d(x, w, groups=3), (r(1, 3, 6, 6), r(6, 1, 3, 3))),
        (F.conv1d, (r(2, 3, 9), r(4, 3, 3), r(4))),
        (lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1), (r(1, 3, 4, 4), r(3, 2, 3, 3))),
        (lambda x, w: F.conv_transpose2d(x, w, groups=2), (r(1, 4, 4, 4), r(4, 3, 2, 2))),
        (F.conv_transpose1d, (r(1, 3, 5), r(3, 2, 3))),
        (F.conv2d, (r(1, 3, 8, 8).to(memory_format=torch.channels_last), r(4, 3, 3, 3), r(4))),
        (lambda x, w: F.conv2d(x, w, padding="same"), (r(1, 3, 6, 7), r(4, 3, 2, 3))),
        (F.conv2d, (r(3, 6, 6), r(2, 3, 3, 3))),
        (F.conv3d, (r(1, 2, 5, 6, 7), r(4, 2, 3, 3, 3), r(4))),
        (lambda x, w: F.conv3d(x, w, stride=(2, 1, 2), padding=1, dilation=(1, 2, 1), groups=2),
            (r(1, 4, 5, 6, 7), r(4, 2, 2, 3, 3))),
        (lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2, padding=1, output_padding=1),
            (r(1, 2, 3, 4, 3), r(2, 4, 3, 3, 3), r(4))),
    ],
    "convolution_backward.out": [
        (lambda g, x,
            w: aten.convolution_backward.default(g, x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
            [True, True, True]), (r(1, 4, 4, 4), r(1, 3, 6, 6), r(4, 3, 3, 3))),
    ],
    "max_pool2d_with_indices.out": [
        (lambda x: F.max_pool2d(x, 2), (r(1, 3, 6, 6),)),
        (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (r(1, 3, 7, 7),)),
        (lambda x: F.max_pool2d(x, 2, dilation=2), (r(3, 6, 6),)), (lambda x: F.max_pool1d(x, 2), (r(2, 3, 7),)),
        (lambda x: F.max_pool3d(x, 2, padding=1), (r(1, 2, 4, 5, 6),)),
        (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (r(1, 3, 4, 6),)),
        (lambda x: F.max_pool2d(x, 2), (r(1, 3, 6, 6).to(memory_format=torch.channels_last),)),
    ],
    "avg_pool2d.out": [
        (lambda x: F.avg_pool2d(x, 2), (r(1, 3, 6, 6),)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), (r(1, 3, 7, 7),)),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (r(1, 3, 6, 6),)),
        (lambda x: F.avg_pool1d(x, 3, 2, 1), (r(2, 3, 9),)),
        (lambda x: F.avg_pool3d(x, 2, 1, 1), (r(1, 2, 4, 5, 6),)),
        (lambda x: F.avg_pool3d(x, (1, 2, 3), ceil_mode=True, count_include_pad=False), (r(1, 2, 4, 5, 6),)),
    ],
    "_adaptive_avg_pool2d.out": [
        (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (r(1, 3, 5, 7),)),
        (lambda x: F.adaptive_avg_pool1d(x, 3), (r(1, 3, 7),)),
        (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (r(1, 2, 5, 4, 6),)),
    ],
    "native_layer_norm.out": [(lambda x, w, b: F.layer_norm(x, (4,), w, b), (r(2, 3, 4), r(4), r(4))),
        (lambda x: F.layer_norm(x, (3, 4)), (r(2, 3, 4),))],
    "native_group_norm.out": [(lambda x, w, b: F.group_norm(x, 2, w, b), (r(2, 4, 3, 3), r(4), r(4))),
        (lambda x: F.group_norm(x, 1), (r(2, 4, 5),))],
    "_native_batch_norm_legit_no_training.out": [(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
        (r(2, 4, 3, 3), *_norm_stats(4))), (lambda x, m, v: F.batch_norm(x, m, v), (r(2, 4), r(4), p(4)))],
    "_native_batch_norm_legit.no_stats_out": [(lambda x, w,
        b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5), (r(2, 4, 3, 3), p(4), r(4)))],
    "_cdist_forward.out": [(torch.cdist, (r(3, 4), r(5, 4))),
        (lambda x, y: torch.cdist(x, y, p=1.0), (r(2, 3, 4), r(2, 5, 4)))],
    "_pdist_forward.out": [(F.pdist, (r(4, 3),)), (lambda x: F.pdist(x, 1.0), (r(4, 3),))],
    # Resampling and padding.
    "grid_sampler_2d.out": [(lambda x, g: F.grid_sample(x, g, align_corners=False),
        (r(1, 2, 4, 4), unit(1, 3, 3, 2))),
    (lambda x, g: F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
        (r(1, 2, 4, 4), unit(1, 3, 3, 2)))],
    "upsample_bilinear2d.vec_out": [(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (r(1, 2, 3, 4),)),
        (lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), (r(1, 2, 3, 4),))],
    "_upsample_bilinear2d_aa.out": [(lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
        (r(1, 2, 6, 8),))],
    "upsample_nearest2d.vec_out": [(lambda x: F.interpolate(x, scale_factor=2), (r(1, 2, 3, 4),)),
        (lambda x: F.interpolate(x, size=(5, 7)), (r(1, 2, 3, 4),))],
    "constant_pad_nd.out": [(lambda x: F.pad(x, (1, 2)), (r(2, 3),)),
        (lambda x: F.pad(x, (1, 0, 0, 2), value=3.0), (r(2, 3),)), (lambda x: F.pad(x, (-1, 1)), (r(2, 3),)),
    (lambda x: F.pad(x, (1, 1)), (r(4, dtype=torch.int64),))],
    "reflection_pad1d.out": pads("reflect", ((1, 2, 5), (2, 1))),
    "reflection_pad2d.out": pads("reflect", ((1, 2, 5, 4), (2, 1, 1, 3))),
    "reflection_pad3d.out": pads("reflect", ((1, 2, 4, 5, 4), (2, 1, 1, 3, 1, 1))),
    "replication_pad1d.out": pads("replicate", ((1, 2, 5), (2, 1))),
    "replication_pad2d.out": pads("replicate", ((1, 2, 5, 4), (2, 1, 1, 3))),
    "replication_pad3d.out": pads("replicate", ((1, 2, 4, 5, 4), (2, 1, 1, 3, 1, 1))),
    # Indexing.
    "embedding.out": [(F.embedding, (i(2, 3, below=5), r(5, 4))),
        (F.embedding, (i(3, below=5, dtype=torch.int32), r(5, 4)))],
    "index_select.out": [(lambda x, j: x.index_select(1, j), (r(2, 5), i(3, below=5))),
        (lambda x, j: x.index_select(0, j), (r(5, 2), i(3, below=5, dtype=torch.int32)))],
    "index.Tensor_out": [
        (lambda x, j: x[j], (r(5, 3), i(4, below=5))),
        (lambda x, j, k: x[j, k], (r(5, 3), i(4, below=5), i(4, below=3))),
        (lambda x, j: x[:, j], (r(5, 3), i(2, 2, below=3))),
        (lambda x, j: x[j, :, j], (r(4, 3, 4), i(2, below=4))),
    ],
    "index_put.out": [
        (lambda x, j, v: x.index_put((j,), v), (r(5, 3), torch.tensor([0, 2]), r(2, 3))),
        (lambda x, j, v: x.index_put((j,), v, accumulate=True), (r(5), torch.tensor([0, 2, 2]), r(3))),
        (lambda x, m: x.index_put((m,), torch.tensor(0.0)), (r(2, 3), r(2, 3, dtype=torch.bool))),
    ],
    "gather.out": [(lambda x, j: x.gather(1, j), (r(3, 4), i(3, 2, below=4))),
        (lambda x, j: x.gather(0, j), (r(4), i(6, below=4)))],
    "scatter.src_out": [(lambda x, s: x.scatter(1, torch.tensor([[0, 2], [1, 0], [3, 2]]), s), (r(3, 4), r(3, 2)))],
    "scatter.value_out": [(lambda x, j: x.scatter(1, j, 2.0), (r(3, 4), i(3, 2, below=4)))],
    "scatter_add.out": [(lambda x, j, s: x.scatter_add(0, j, s), (r(4), i(6, below=4), r(6))),
        (lambda x, j, s: x.scatter_reduce(1, j, s, "sum"), (r(2, 4), i(2, 5, below=4), r(2, 5)))],
    "masked_scatter.out": [(torch.masked_scatter, (r(2, 3), r(2, 3, dtype=torch.bool), r(6)))],
    "masked_select.out": [(torch.masked_select, (r(2, 3), r(2, 3, dtype=torch.bool))),
        (torch.masked_select, (r(3), r(2, 3, dtype=torch.bool)))],
    "nonzero.out": [(torch.nonzero, (r(2, 5, dtype=torch.bool),)), (torch.nonzero, (r(4, 3, dtype=torch.int64),))],
    "repeat_interleave.Tensor_out": [(lambda n: torch.repeat_interleave(n, output_size=3), (torch.tensor([1, 0, 2]),))],
    "select_scatter.out": [(lambda x, s: x.select_scatter(s, 1, 2), (r(3, 4), r(3)))],
    "slice_scatter.out": [(lambda x, s: x.slice_scatter(s, 1, 1, 3), (r(3, 4), r(3, 2))),
        (lambda x, s: x.slice_scatter(s, 0, 0, 4, 2), (r(4, 2), r(2, 2)))],
    # Shapes.
    "cat.out": [(lambda *t: torch.cat(t), (r(2, 3), r(1, 3))),
        (lambda *t: torch.cat(t, 1), (r(2, 3), r(2, 0), r(2, 1))),
    (lambda *t: torch.cat(t), (r(2, dtype=torch.int64), r(3)))],
    "stack.out": [(lambda *t: torch.stack(t), (r(2, 3), r(2, 3))), (lambda *t: torch.stack(t, -1), (r(2, 3), r(2, 3)))],
    "expand_copy.out": [(lambda x: x.expand(4, 2, 3), (r(2, 3),)), (lambda x: x.expand(-1, 5), (r(2, 1),))],
    "repeat.out": [(lambda x: x.repeat(2, 3), (r(2, 3),)), (lambda x: x.repeat(2, 1, 2), (r(2, 3),))],
    "permute_copy.out": [(lambda x: x.permute(2, 0, 1), (r(2, 3, 4),)),
        (lambda x: x.permute(1, 0), (r(2, 3, dtype=torch.bool),))],
    "transpose_copy.int_out": [(lambda x: x.transpose(1, 2), (r(2, 3, 4),))],
    "t_copy.out": [(torch.t, (r(2, 3),))],
    "slice_copy.Tensor_out": [(lambda x: x[:, 1:3], (r(2, 5),)), (lambda x: x[:, ::2], (r(2, 5),)),
        (lambda x: x[:, -2:], (r(2, 5),)), (lambda x: x[:, 3:3], (r(2, 5),))],
    "select_copy.int_out": [(lambda x: x[:, 1], (r(2, 3),)), (lambda x: x[..., -1], (r(2, 3, 4),))],
    "split_copy.Tensor_out": [(lambda x: x.split(2, 1), (r(2, 5),)), (lambda x: x.chunk(2, 1), (r(3, 4),))],
    "split_with_sizes_copy.out": [(lambda x: x.split([1, 3, 1], 1), (r(2, 5),))],
    "unbind_copy.int_out": [(lambda x: x.unbind(1), (r(2, 3),))],
    "unfold_copy.out": [(lambda x: x.unfold(1, 3, 2), (r(2, 7),))],
    "as_strided_copy.out": [(lambda x: torch.as_strided_copy(x, (2, 2), (1, 2)), (r(5),))],
    "diagonal_copy.out": [(torch.diagonal, (r(3, 4),)), (lambda x: torch.diagonal(x, 1, 1, 2), (r(2, 3, 4),))],
    "flip.out": [(lambda x: x.flip(0, 1), (r(2, 3),)), (lambda x: x.flip(-1), (r(2, 3, dtype=torch.int64),))],
    "roll.out": [(lambda x: x.roll(2, 1), (r(2, 5),)), (lambda x: x.roll((1, -1), (0, 1)), (r(3, 4),))],
    "tril.out": [(torch.tril, (r(3, 4),)), (lambda x: torch.tril(x, 1), (r(2, 3, 3),))],
    "pixel_shuffle.out": [(lambda x: F.pixel_shuffle(x, 2), (r(1, 8, 3, 3),))],
    "pixel_unshuffle.out": [(lambda x: F.pixel_unshuffle(x, 2), (r(1, 2, 4, 6),))],
    "narrow_copy.out": [(lambda x: torch.narrow_copy(x, 1, 1, 2), (r(2, 5),))],
    "view_as_real_copy.out": [(torch.view_as_real, (torch.complex(r(2, 3), r(2, 3)),))],
    "_conj_physical.out": [(lambda x: torch.view_as_real(torch.conj_physical(x)), (torch.complex(r(2, 3), r(2, 3)),))],
    "_fft_r2c.out": [(lambda x: torch.view_as_real(torch.fft.rfft(x)), (r(2, 8),))],
    "_fft_c2r.out": [(lambda x: torch.fft.irfft(x), (torch.complex(r(2, 5), r(2, 5)),))],
    # Tensors from numbers.
    "full_like.out": [(lambda x: torch.full_like(x, 2.5), (r(20, 300),))],
    "fill.Scalar_out": [(lambda x: aten.fill.Scalar(x, 2.5), (r(2, 3),))],
    "fill.Tensor_out": [(aten.fill.Tensor, (r(2, 3), r(1)[0]))],
    "full.out": [(lambda x: x + torch.full((80, 100), 2.5), (r(100),))],
    "ones.out": [(lambda x: x + torch.ones(80, 100), (r(100),))],
    "zeros.out": [(lambda x: x + torch.zeros(80, 100), (r(100),))],
    "arange.start_out": [(lambda x: x + torch.arange(1, 9000, 2), (r(1, dtype=torch.int64),))],
    "copy.out": [(aten.copy.default, (r(2, 3), r(3)))],
    "native_dropout.out": [(lambda x: aten.native_dropout(x, 0.0, True)[0], (r(2, 3),))],
    "_local_scalar_dense": [(lambda x: x + x[0].item(), (p(3, dtype=torch.int64),))],
}  # fmt: skip


# Kernels that no program needs, each with the reason.
UNREACHED: dict[str, str] = {
    "aten::_to_copy.out": "dim_order_ops::_to_dim_order_copy.out does it",
    "aten::clone.out": "dim_order_ops::_clone_dim_order.out does it",
    "aten::alias_copy.out": "a copy that changes nothing is no instruction",
    "aten::detach_copy.out": "a copy that changes nothing is no instruction",
    "aten::lift_fresh_copy.out": "a copy that changes nothing is no instruction",
    "aten::squeeze_copy.dim_out": "the same bytes: a second view of the memory, or et_view",
    "aten::squeeze_copy.dims_out": "the same bytes: a second view of the memory, or et_view",
    "aten::unsqueeze_copy.out": "the same bytes: a second view of the memory, or et_view",
    "aten::view_copy.out": "the same bytes: a second view of the memory, or et_view",
    "aten::_native_batch_norm_legit.out": "writes the running statistics in place; its functional form has no kernel",
    "aten::copy_": "the emitter's write to a buffer or an input; see the tests of state",
    "aten::index_put_": "the emitter's choice where the operand dies",
    "aten::empty.out": "its values are undefined",
    "aten::arange.out": "arange.start_out does it",
    "aten::rand.out": "random; see the tests of random numbers",
    "aten::randn.out": "random; see the tests of random numbers",
    "aten::sym_size.int": "sizes; see the tests of dynamic shapes",
    "aten::scalar_tensor.out": "a number known now is a constant",
    "aten::sym_numel": "the product of sizes is computed",
    "aten::addmm.out": "80 times slower than linear, and than mm and add",
    "aten::max_pool2d_with_indices_backward.grad_input": "wrong where windows overlap; scatter_add does it",
}
