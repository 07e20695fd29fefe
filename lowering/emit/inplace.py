"""Kernels that may write their result over an operand: element i of the one needs only element i of the other."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import Node

from .shapes import dim_order, same_shape

_ELEMENTWISE = frozenset(
    f"aten::{name}"
    for name in (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clamp cos cosh div elu eq erf exp expm1 floor floor_divide fmod ge gelu "
        "gt hardtanh le leaky_relu log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt "
        "masked_fill maximum minimum mul ne neg pow reciprocal relu remainder round rsqrt rsub sigmoid sign sin sinh "
        "sqrt sub tan tanh trunc where"
    ).split()
)


def overwritable_operands(node: Node) -> list[Node]:
    """The operands of `node` that its kernel could overwrite with the result, if nobody else needs them."""
    if not isinstance(node.target, OpOverload) or node.target._schema.name not in _ELEMENTWISE:
        return []
    result = node.meta["val"]
    return [operand for operand in node.all_input_nodes if _alike(operand.meta.get("val"), result)]


def _alike(operand: object, result: torch.Tensor) -> bool:
    return (
        isinstance(operand, torch.Tensor)
        and operand.dtype == result.dtype
        and same_shape(operand.shape, result.shape)
        and dim_order(operand) == dim_order(result)
    )
