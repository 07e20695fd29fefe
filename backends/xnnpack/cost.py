"""Which partitions are worth their border.

A call of the delegate costs about three microseconds before it computes anything, and each tensor
that crosses the border must lie in memory whole. Views cost nothing outside, and an operator on a
few hundred numbers less than the call. So a partition must contain a product, a convolution, a
pool, a normalisation or a softmax, or else compute enough elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

aten = torch.ops.aten

# Elements that the CPU kernels compute elementwise in the time of one call of the delegate.
_ELEMENTS_PER_CALL = 1024

_HEAVY = frozenset(
    {
        aten.linear.default, aten.addmm.default, aten.mm.default, aten.bmm.default, aten.matmul.default,
        aten.scaled_dot_product_attention.default, aten.convolution.default, aten._softmax.default,
        aten.max_pool2d_with_indices.default, aten.max_pool2d.default, aten.avg_pool2d.default,
        aten._adaptive_avg_pool2d.default, aten.upsample_bilinear2d.vec, aten.upsample_bilinear2d.default,
        aten.native_group_norm.default, aten._native_batch_norm_legit_no_training.default,
    }
)  # fmt: skip

_FREE = frozenset(
    {
        aten.view_copy.default, aten.unsqueeze_copy.default, aten.squeeze_copy.dim, aten.squeeze_copy.dims,
        aten.clone.default, aten.alias_copy.default, aten.detach_copy.default, aten.expand_copy.default,
        aten.permute_copy.default, aten.transpose_copy.int, aten.t_copy.default, aten.slice_copy.Tensor,
        aten.select_copy.int, aten.split_copy.Tensor, aten.split_with_sizes_copy.default, aten.unbind_copy.int,
        aten.cat.default, aten.stack.default, aten._to_copy.default,
    }
)  # fmt: skip


def is_worth(group: Sequence[Node]) -> bool:
    """Whether a partition of these nodes is faster in the delegate than outside of it."""
    if any(node.target in _HEAVY or not _is_aten(node) for node in group):
        return True
    return sum(_elements(node) for node in group if node.target not in _FREE) >= _ELEMENTS_PER_CALL


def _is_aten(node: Node) -> bool:
    return getattr(node.target, "namespace", "aten") == "aten"


def _elements(node: Node) -> int:
    """Elements of a node's result; a dynamic size counts as sixteen."""
    val = node.meta["val"]
    val = val[0] if isinstance(val, (tuple, list)) else val
    return math.prod(size if isinstance(size, int) else 16 for size in val.shape)
