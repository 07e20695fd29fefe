"""Products of matrices that have no kernel of their own."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.bilinear.default)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """out[..., o] = input1[..., i] weight[o, i, j] input2[..., j] + bias[o], by a linear and a batched product."""
    outputs, width1, width2 = weight.shape
    batch = input1.shape[:-1]
    rows = aten.reshape.default(input1, [-1, width1])
    by_output = aten.reshape.default(aten.permute.default(weight, [0, 2, 1]), [outputs * width2, width1])
    left = aten.view.default(aten.linear.default(rows, by_output), [-1, outputs, width2])
    right = aten.unsqueeze.default(aten.reshape.default(input2, [-1, width2]), -1)
    result = aten.view.default(aten.bmm.default(left, right), [*batch, outputs])
    return result if bias is None else aten.add.Tensor(result, bias)


# So many products of int8 values add up to at most 2**24, up to where float32 has every integer.
_EXACT_TERMS = 1040


@decomposes(aten._int_mm.default)
def int_mm(self: Any, mat2: Any) -> Any:
    """int8 [n, k] times int8 [k, m], as int32: by products of floats, in blocks of k whose sums are exact."""
    total = None
    for start in range(0, self.shape[1], _EXACT_TERMS):
        end = min(start + _EXACT_TERMS, self.shape[1])
        left, right = aten.slice.Tensor(self, 1, start, end), aten.slice.Tensor(mat2, 0, start, end)
        product = aten.mm.default(*(aten._to_copy.default(part, dtype=torch.float32) for part in (left, right)))
        block = aten._to_copy.default(product, dtype=torch.int32)
        total = block if total is None else aten.add.Tensor(total, block)
    return total
