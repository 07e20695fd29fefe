"""Functional operators → the variants that write into tensors given to them, found by schema."""

from __future__ import annotations

from functools import cache

import torch
from torch._ops import OpOverload

# Arguments by which a functional operator describes the tensor that it makes. An out-variant is
# given that tensor, and so may lack them.
_TENSOR_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})


@cache
def out_variant(op: OpOverload) -> OpOverload | None:
    """The overload of the same operator that differs from `op` only in taking its results as `out` arguments.

    `add.Tensor` → `add.out`, `mean.dim` → `mean.out`, `split_copy.Tensor` → `split_copy.Tensor_out`.
    None where there is none, for operators that mutate or alias their arguments, and for those that
    return no tensor.
    """
    schema = op._schema
    if schema.is_mutable or any(a.alias_info for a in schema.arguments) or not schema.returns:
        return None
    packet = op.overloadpacket
    for name in packet.overloads():
        candidate = getattr(packet, name)
        if _is_out_variant(schema, candidate._schema):
            return candidate
    return None


def _is_out_variant(functional: torch.FunctionSchema, candidate: torch.FunctionSchema) -> bool:
    outs = [a for a in candidate.arguments if a.is_out]
    if not outs or len(candidate.arguments) == len(outs) == 0:
        return False
    if _out_types(outs) != [str(r.type) for r in functional.returns]:
        return False
    inputs = {a.name: str(a.type) for a in candidate.arguments if not a.is_out}
    wanted = {a.name: str(a.type) for a in functional.arguments}
    missing = wanted.keys() - inputs.keys()
    return inputs.items() <= wanted.items() and missing <= _TENSOR_OPTIONS


def _out_types(outs: list[torch.Argument]) -> list[str]:
    return [str(a.type) for a in outs]
