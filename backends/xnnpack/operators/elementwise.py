"""Operators that compute each element by itself."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..builder import FLOATS, Builder, need_constant
from ..graph import Unsupported, Value, is_static, same_sizes
from .table import ENCODERS, Encoder, operator

aten = torch.ops.aten

# Of numbers that are so small, softmax makes zeros.
_MASKED = -1e4


def _unary(kind: str) -> Encoder:
    return lambda b, val, x: b.unary(kind, x)


ENCODERS.update(
    {
        aten.abs.default: _unary("Abs"),
        aten.ceil.default: _unary("Ceiling"),
        aten.cos.default: _unary("Cos"),
        aten.exp.default: _unary("Exp"),
        aten.floor.default: _unary("Floor"),
        aten.hardswish.default: _unary("Hardswish"),
        aten.log.default: _unary("Log"),
        aten.neg.default: _unary("Negate"),
        aten.rsqrt.default: _unary("ReciprocalSquareRoot"),
        aten.sigmoid.default: _unary("Sigmoid"),
        aten.sin.default: _unary("Sin"),
        aten.sqrt.default: _unary("SquareRoot"),
        aten.tanh.default: _unary("Tanh"),
        aten.square.default: _unary("Square"),
    }
)


@operator(aten.relu.default)
def relu(b: Builder, val: Any, x: Value) -> Value:
    return b.clamp(x, 0.0, math.inf)


@operator(aten.hardtanh.default)
def hardtanh(b: Builder, val: Any, x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return _clamp(b, x, min_val, max_val)


@operator(aten.clamp.default)
def clamp(b: Builder, val: Any, x: Value, min: float | None = None, max: float | None = None) -> Value:
    return _clamp(b, x, min, max)


@operator(aten.clamp_min.default)
def clamp_min(b: Builder, val: Any, x: Value, min: float) -> Value:
    return _clamp(b, x, min, None)


@operator(aten.clamp_max.default)
def clamp_max(b: Builder, val: Any, x: Value, max: float) -> Value:
    return _clamp(b, x, None, max)


@operator(aten.clamp.Tensor)
def clamp_tensor(b: Builder, val: Any, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    for kind, bound in (("Maximum", min), ("Minimum", max)):
        if bound is not None:
            x = b.binary(kind, x, bound)
    return x


def _clamp(b: Builder, x: Value, low: Any, high: Any) -> Value:
    low = -math.inf if low is None else _number(low)
    high = math.inf if high is None else _number(high)
    if low == high or math.isnan(low) or math.isnan(high):
        raise Unsupported("XNNPACK needs a lower bound below the upper one")
    if low > high:  # PyTorch: everything becomes the upper bound
        raise Unsupported("its lower bound is above the upper one")
    return x if low == -math.inf and high == math.inf else b.clamp(x, low, high)


@operator(aten.gelu.default)
def gelu(b: Builder, val: Any, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "none":
        return b.unary("Gelu", x)
    # x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    inner = b.binary("Add", b.binary("Multiply", b.unary("Square", x), 0.044715), 1.0)
    inner = b.binary("Multiply", b.binary("Multiply", x, math.sqrt(2 / math.pi)), inner)
    return b.binary("Multiply", b.binary("Multiply", x, 0.5), b.binary("Add", b.unary("Tanh", inner), 1.0))


@operator(aten.elu.default)
def elu(b: Builder, val: Any, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if input_scale != 1 or alpha <= 0:
        raise Unsupported("XNNPACK's elu has a positive alpha and no scale for its input")
    result = b.unary("ELU", x, alpha=float(alpha))
    return result if scale == 1 else b.binary("Multiply", result, float(scale))


@operator(aten.leaky_relu.default)
def leaky_relu(b: Builder, val: Any, x: Value, negative_slope: float = 0.01) -> Value:
    if not math.isfinite(negative_slope) or negative_slope == 0:
        raise Unsupported("XNNPACK's slope is finite and not zero")
    return b.unary("LeakyReLU", x, alpha=float(negative_slope))


@operator(aten.prelu.default, aten._prelu_kernel.default)
def prelu(b: Builder, val: Any, x: Value, weight: Value) -> Value:
    if weight.constant is None:
        raise Unsupported("its weight is not a constant")
    count = math.prod(weight.sizes)
    shape = [1] * x.rank
    shape[1 if x.rank > 1 else 0] = count
    return b.node("PReLU", [x, b.derived(weight, lambda w: w.reshape(shape), shape)], x.sizes)


@operator(aten.hardsigmoid.default)
def hardsigmoid(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Multiply", b.clamp(b.binary("Add", x, 3.0), 0.0, 6.0), 1 / 6)


@operator(aten.glu.default)
def glu(b: Builder, val: Any, x: Value, dim: int = -1) -> Value:
    dim, half = dim % x.rank, val.shape[dim % x.rank]
    if not isinstance(half, int):
        raise Unsupported("it halves a dynamic dimension")
    first, second = (b.slice(x, dim, start, half) for start in (0, half))
    return b.binary("Multiply", first, b.unary("Sigmoid", second))


@operator(aten.silu.default)
def silu(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Multiply", x, b.unary("Sigmoid", x))


@operator(aten.reciprocal.default)
def reciprocal(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Div", 1.0, x)


@operator(aten.tan.default)
def tan(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Div", b.unary("Sin", x), b.unary("Cos", x))


@operator(aten.log2.default)
def log2(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Multiply", b.unary("Log", x), 1 / math.log(2))


@operator(aten.log10.default)
def log10(b: Builder, val: Any, x: Value) -> Value:
    return b.binary("Multiply", b.unary("Log", x), 1 / math.log(10))


@operator(aten.exp2.default)
def exp2(b: Builder, val: Any, x: Value) -> Value:
    return b.unary("Exp", b.binary("Multiply", x, math.log(2)))


@operator(aten.pow.Tensor_Scalar)
def pow_scalar(b: Builder, val: Any, x: Value, exponent: float) -> Value:
    if exponent == 1:
        return x
    if exponent == 2:
        return b.unary("Square", x)
    if exponent == 3:
        return b.binary("Multiply", x, b.unary("Square", x))
    if exponent == 4:
        return b.unary("Square", b.unary("Square", x))
    if exponent == 0.5:
        return b.unary("SquareRoot", x)
    if exponent == -0.5:
        return b.unary("ReciprocalSquareRoot", x)
    if exponent == -1:
        return b.binary("Div", 1.0, x)
    raise Unsupported(f"XNNPACK has no power {exponent}")


@operator(aten.pow.Scalar)
def power_of_number(b: Builder, val: Any, base: float, x: Value) -> Value:
    if base <= 0:
        raise Unsupported("its base is not positive")
    return b.unary("Exp", b.binary("Multiply", x, math.log(base)))


@operator(aten.add.Tensor, aten.add.Scalar)
def add(b: Builder, val: Any, x: Value, other: Any, alpha: float = 1) -> Value:
    return b.binary("Add", x, _scaled(b, other, alpha))


@operator(aten.sub.Tensor, aten.sub.Scalar)
def sub(b: Builder, val: Any, x: Value, other: Any, alpha: float = 1) -> Value:
    return b.binary("Subtract", x, _scaled(b, other, alpha))


@operator(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(b: Builder, val: Any, x: Value, other: Any, alpha: float = 1) -> Value:
    return b.binary("Subtract", _operand(other), _scaled(b, x, alpha))


@operator(aten.mul.Tensor, aten.mul.Scalar)
def mul(b: Builder, val: Any, x: Value, other: Any) -> Value:
    if x is other:
        return b.unary("Square", x)
    return b.binary("Multiply", x, _operand(other))


@operator(aten.div.Tensor, aten.div.Scalar)
def div(b: Builder, val: Any, x: Value, other: Any) -> Value:
    return b.binary("Div", x, _operand(other))


@operator(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(b: Builder, val: Any, x: Value, other: Any, *, rounding_mode: str | None) -> Value:
    if rounding_mode == "trunc":
        raise Unsupported("XNNPACK cannot round towards zero")
    quotient = b.binary("Div", x, _operand(other))
    return quotient if rounding_mode is None else b.unary("Floor", quotient)


@operator(aten.maximum.default)
def maximum(b: Builder, val: Any, x: Value, other: Value) -> Value:
    return b.binary("Maximum", x, other)


@operator(aten.minimum.default)
def minimum(b: Builder, val: Any, x: Value, other: Value) -> Value:
    return b.binary("Minimum", x, other)


@operator(aten.masked_fill.Scalar)
def masked_fill(b: Builder, val: Any, x: Value, mask: Value, number: float) -> Value:
    """Of a constant mask, as before a softmax: what is masked has bounds that are the number."""
    masked, number = need_constant(mask, "its mask"), _number(number)
    if not number <= _MASKED:
        raise Unsupported("what it hides may be no number, which bounds do not hide")
    x = b.binary("Minimum", x, b.constant(mask.sizes, x.dtype, lambda: torch.where(masked(), number, math.inf)))
    if number == -math.inf:
        return x
    return b.binary("Maximum", x, b.constant(mask.sizes, x.dtype, lambda: torch.where(masked(), number, -math.inf)))


@operator(aten.clone.default, aten.alias_copy.default, aten.detach_copy.default, aten.lift_fresh_copy.default)
def clone(b: Builder, val: Any, x: Value, *, memory_format: torch.memory_format | None = None) -> Value:
    """The same values: in which layout is for the layout pass to say."""
    return b.unary("Copy", x)


@operator(aten._to_copy.default)
def to_copy(b: Builder, val: Any, x: Value, **options: Any) -> Value:
    dtype = FLOATS.get(val.dtype)
    if dtype is None:
        raise Unsupported(f"XNNPACK has no values of {val.dtype}")
    return b.unary("Copy", x) if dtype == x.dtype else b.converted(x, dtype)


@operator(aten.repeat.default)
def repeat(b: Builder, val: Any, x: Value, repeats: Any) -> Value:
    """Every repeated dimension as two, of which the first is a product with ones."""
    if not is_static(x.sizes) or not is_static(repeats):
        raise Unsupported("it has dynamic sizes")
    x = b.reshape(x, (1,) * (len(repeats) - x.rank) + x.sizes)
    for d, count in enumerate(repeats):
        if count > 1:
            before, size, after = math.prod(x.sizes[:d]), x.sizes[d], math.prod(x.sizes[d + 1 :])
            sizes = (*x.sizes[:d], size * count, *x.sizes[d + 1 :])
            x = b.reshape(_times_ones(b, b.reshape(x, (before, 1, size * after)), (1, count, 1)), sizes)
    return b.unary("Copy", x)


def _times_ones(b: Builder, x: Value, sizes: tuple[int, ...]) -> Value:
    return b.binary("Multiply", x, b.constant(sizes, x.dtype, lambda: torch.ones(sizes)))


@operator(aten.expand_copy.default)
def expand(b: Builder, val: Any, x: Value, size: Any, *, implicit: bool = False) -> Value:
    """Repetition along dimensions of size one: a product with ones, which XNNPACK broadcasts."""
    if same_sizes(x.sizes, val.shape):
        return b.unary("Copy", x)
    x = b.reshape(x, (1,) * (len(val.shape) - x.rank) + x.sizes)
    repeats = []
    for old, new in zip(x.sizes, val.shape):
        if same_sizes([old], [new]):
            repeats.append(1)
        elif isinstance(new, int):
            repeats.append(new)
        else:
            raise Unsupported("it repeats a dynamic number of times")
    return _times_ones(b, x, tuple(repeats))


def _scaled(b: Builder, operand: Any, alpha: float) -> Any:
    operand = _operand(operand)
    if alpha == 1:
        return operand
    return b.binary("Multiply", operand, float(alpha)) if isinstance(operand, Value) else operand * alpha


def _operand(operand: Any) -> Value | float:
    return operand if isinstance(operand, Value) else _number(operand)


def _number(number: Any) -> float:
    if isinstance(number, (torch.SymInt, torch.SymFloat)):
        raise Unsupported("its operand is a symbolic number")
    return float(number)
