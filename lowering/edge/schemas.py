"""What an ATen operator's schema says: does it mutate, alias or compose, and which operators are its counterparts."""

from __future__ import annotations

from functools import cache

import torch
from torch._ops import OpOverload


@cache
def is_composite(op: OpOverload) -> bool:
    """Whether PyTorch defines `op` by other operators, for all devices and for autograd."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


@cache
def is_view(op: OpOverload) -> bool:
    """Whether a result of `op` always shares its first argument's storage."""
    schema = op._schema
    return not schema.is_mutable and not is_composite(op) and returns_alias(op)


@cache
def returns_alias(op: OpOverload) -> bool:
    """Whether a result of `op` may share storage with an argument."""
    return any(result.alias_info for result in op._schema.returns)


@cache
def copy_variant(view: OpOverload) -> OpOverload | None:
    """The operator that gives a view operator's result in memory of its own: `slice.Tensor` → `slice_copy.Tensor`."""
    return _overload(view, view._schema.name + "_copy")


@cache
def copies_view(op: OpOverload) -> bool:
    """Whether `op` gives a view operator's result in memory of its own."""
    name = op._schema.name
    view = _overload(op, name.removesuffix("_copy")) if name.endswith("_copy") else None
    return view is not None and is_view(view)


@cache
def functional_variant(op: OpOverload) -> OpOverload | None:
    """For an operator that writes to arguments, the one that returns what would be written.

    Its results are those of `op` that are no aliases, then the new value of each argument that
    `op` writes to: `add_.Tensor` → `add.Tensor`. None for operators that change sizes or strides
    in place, and where PyTorch has none.
    """
    if torch.Tag.inplace_view in op.tags or not mutated_arguments(op):
        return None
    name = op._schema.name
    if name.endswith("__"):  # Python's operators: __ior__ → __or__
        candidates = [name.replace("::__i", "::__")]
    elif name.endswith("_"):
        candidates = [name.removesuffix("_")]
    else:
        candidates = [name + "_functional", name]
    fresh = sum(not result.alias_info for result in op._schema.returns)
    for candidate in candidates:
        found = _overload(op, candidate)
        if (
            found is not None
            and not found._schema.is_mutable
            and len(found._schema.arguments) == len(op._schema.arguments)
            and len(found._schema.returns) == fresh + len(mutated_arguments(op))
        ):
            return found
    return None


@cache
def view_variant(op: OpOverload) -> OpOverload | None:
    """For an operator that changes sizes in place, the one that gives a view: `unsqueeze_` → `unsqueeze`."""
    namespace, _, name = op._schema.name.removesuffix("_").partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    types = [str(a.type) for a in op._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        found = getattr(packet, overload)
        if [str(a.type) for a in found._schema.arguments] == types and is_view(found):
            return found
    return None


@cache
def mutated_arguments(op: OpOverload) -> tuple[int, ...]:
    """Positions of the arguments that `op` writes to."""
    arguments = op._schema.arguments
    return tuple(i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


def _overload(op: OpOverload, qualified_name: str) -> OpOverload | None:
    namespace, _, name = qualified_name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return getattr(packet, op._overloadname, None) if packet is not None else None
