"""The kernels that a target runtime has, by name, as its registry spells them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch._ops import OpOverload

from .out_variant import out_variant

_DATA = Path(__file__).parent / "data"

# Kernels by which the emitter expresses operators that have none of their own: those that know of memory
# layouts, and for a view of other dtype, which is a second tensor on the same memory, what sets its sizes.
_STAND_INS = {
    "aten::_to_copy": "dim_order_ops::_to_dim_order_copy.out",
    "aten::clone": "dim_order_ops::_clone_dim_order.out",
    "aten::view_copy.dtype": "aten::empty.out",
}


@dataclass(frozen=True)
class OperatorSet:
    """Names of kernels, `namespace::operator.overload` (no dot where the overload has no name)."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __or__(self, other: OperatorSet) -> OperatorSet:
        return OperatorSet(self.names | other.names)

    def kernel(self, op: OpOverload) -> str | None:
        """The kernel that runs `op`, a functional operator or one without outputs to allocate; None for none."""
        return next((candidate for candidate in _candidates(op) if candidate in self.names), None)

    def nearest(self, name: str, count: int = 3) -> list[str]:
        """Kernels of operators whose names, without overload, are close to `name`, best first."""
        by_operator: dict[str, str] = {}
        for kernel in sorted(self.names):
            by_operator.setdefault(kernel.partition(".")[0], kernel)
        return [by_operator[near] for near in difflib.get_close_matches(name, by_operator, count, cutoff=0.75)]


def registry_name(op: OpOverload) -> str:
    """`op`'s name as the runtime's registry spells it: `aten::add.out`, `aten::_local_scalar_dense`."""
    return f"{op._schema.name}.{op._schema.overload_name}" if op._schema.overload_name else op._schema.name


@cache
def _candidates(op: OpOverload) -> tuple[str, ...]:
    """Names that a kernel for `op` may have, best first."""
    own, out = registry_name(op), out_variant(op)
    if own in _STAND_INS:
        return _STAND_INS[own], own
    if out is not None:
        return registry_name(out), own
    if op.namespace == "aten":
        return (own,)
    # An extension's operators have out-variants in the runtime that PyTorch may not know.
    name, overload = op._schema.name, op._schema.overload_name
    return (own, f"{name}.{overload}_out", f"{name}.{overload.title()}_out") if overload else (own, f"{name}.out")


@cache
def named_operator_set(name: str) -> OperatorSet:
    """The set of that name: `stock`, `quantized` or `llm`. Raises LookupError for another."""
    file = _DATA / f"{name}.txt"
    known = sorted(path.stem for path in _DATA.glob("*.txt"))
    if name not in known:
        raise LookupError(f"there is no operator set {name!r}; there are {', '.join(known)}")
    return OperatorSet(frozenset(_names(file.read_text().splitlines())))


def _names(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line and not line.startswith("#"))


# What the unmodified runtime registers, and what its two extension libraries add.
stock = named_operator_set("stock")
quantized = named_operator_set("quantized")
llm = named_operator_set("llm")
