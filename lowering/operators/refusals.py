"""What kernels refuse though they exist: known facts of the stock runtime, tried on it."""

from __future__ import annotations

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

_CAST_TO_COMPLEX = (torch.float16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128)

# Operators whose kernels take complex64: those that compute with it, and those that only move values.
_COMPLEX = frozenset(
    (
        "_conj_physical _fft_c2r _fft_r2c abs add bmm div mul sub sum "
        "_to_copy alias_copy as_strided_copy cat clone detach_copy diagonal_copy embedding expand_copy full index "
        "index_select lift_fresh_copy narrow_copy permute_copy pixel_shuffle pixel_unshuffle reflection_pad1d "
        "reflection_pad2d reflection_pad3d repeat replication_pad1d replication_pad2d replication_pad3d select_copy "
        "slice_copy squeeze_copy t_copy transpose_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy"
    ).split()
)


def refusal(node: Node) -> str | None:
    """Why the kernel of `node`'s operator would refuse its arguments at run time; None if it is known to take them."""
    if node.target is torch.ops.aten._to_copy.default:
        source, result = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if result.is_complex and source not in _CAST_TO_COMPLEX:
            return f"it does not convert {source} to {result}; convert to float32 first"
    if node.target is torch.ops.aten._fft_r2c.default and not node.args[3]:
        return "it gives the half of the spectrum that says all (torch.fft.rfft), not both halves (torch.fft.fft)"
    if node.target is torch.ops.aten.clamp.default and node.meta["val"].dtype == torch.uint8:
        if below := [bound for bound in node.args[1:] if isinstance(bound, int) and bound < 0]:
            return f"it takes no bound below 0 for torch.uint8, where PyTorch takes {below[0]} for {below[0] % 256}"
    if node.target.namespace == "aten" and _is_complex(node):
        if node.target._schema.name.removeprefix("aten::") not in _COMPLEX:
            return "it takes no complex numbers; compute with their real and imaginary parts (torch.view_as_real)"
        if node.target is torch.ops.aten.cat.default and len({n.meta["val"].dtype for n in node.args[0]}) > 1:
            return "it takes complex numbers together with complex numbers only; convert all to one dtype"
    return None


def _is_complex(node: Node) -> bool:
    values = tree_leaves([each.meta.get("val") for each in (node, *node.all_input_nodes)])
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)
