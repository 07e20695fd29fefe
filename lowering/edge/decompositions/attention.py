"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + mask) @ value, with the cheap operators on the small tensors.

    A row that the mask leaves nothing of gives zeros, as PyTorch has it.
    """
    if dropout_p:
        return NotImplemented
    if attn_mask is not None and attn_mask.dtype == torch.bool:  # who takes it whole may have floats only
        attn_mask = aten.where.ScalarSelf(attn_mask, 0.0, aten.full.default([], -math.inf, dtype=query.dtype))
        return aten.scaled_dot_product_attention.default(
            query, key, value, attn_mask, scale=scale, enable_gqa=enable_gqa
        )  # fmt: skip
    if enable_gqa:
        key, value = (_repeat_heads(t, query.shape[-3]) for t in (key, value))
    query = aten.mul.Scalar(query, 1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = aten.matmul.default(query, aten.transpose.int(key, -2, -1))
    if is_causal:  # every row attends to its first column
        past = aten.tril.default(aten.full.default(scores.shape[-2:], True, dtype=torch.bool))
        future = aten.where.ScalarSelf(past, 0.0, aten.full.default([], -math.inf, dtype=query.dtype))
        return aten.matmul.default(aten._softmax.default(aten.add.Tensor(scores, future), -1, False), value)
    if attn_mask is None:
        return aten.matmul.default(aten._softmax.default(scores, -1, False), value)
    result = aten.matmul.default(aten._softmax.default(aten.add.Tensor(scores, attn_mask), -1, False), value)
    attended = aten.any.dim(aten.ne.Scalar(attn_mask, -math.inf), -1, True)
    return aten.where.ScalarOther(attended, result, 0.0)


def _repeat_heads(tensor: Any, heads: int) -> Any:
    *batch, own_heads, length, width = tensor.shape
    if own_heads == heads:
        return tensor
    expanded = aten.expand.default(
        aten.unsqueeze.default(tensor, -3), [*batch, own_heads, heads // own_heads, length, width]
    )
    return aten.reshape.default(expanded, [*batch, heads, length, width])
