"""What kernels refuse though they exist: known facts of the stock runtime, tried on it."""

from __future__ import annotations

import torch
from torch.fx import Node

_CAST_TO_COMPLEX = (torch.float16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128)


def refusal(node: Node) -> str | None:
    """Why the kernel of `node`'s operator would refuse its arguments at run time; None if it is known to take them."""
    if node.target is torch.ops.aten._to_copy.default:
        source, result = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if result.is_complex and source not in _CAST_TO_COMPLEX:
            return f"it does not convert {source} to {result}; convert to float32 first"
    if node.target is torch.ops.aten._fft_r2c.default and not node.args[3]:
        return "it gives the half of the spectrum that says all (torch.fft.rfft), not both halves (torch.fft.fft)"
    return None
