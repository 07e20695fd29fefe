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
