"""The table of decompositions: which functions say what an operator is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload

from ..schemas import is_composite
from . import (  # noqa: F401  (they register themselves)
    attention,
    convolution,
    elementwise,
    identities,
    normalization,
    pooling,
    products,
    random,
    recurrent,
    scalars,
    scattering,
    shapes,
    sorting,
)
from .register import TABLE

__all__ = ["decompositions_of", "torch_decomposition"]


def decompositions_of(op: OpOverload) -> tuple[Callable[..., Any], ...]:
    """This project's decompositions of `op`. Each may decline its arguments by returning NotImplemented."""
    return tuple(TABLE.get(op, ()))


@cache
def torch_decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """PyTorch's own decomposition of `op`: towards core ATen if it can, else any that it has."""
    function = _core_table().get(op)
    if function is not None or is_composite(op):
        return function or op.decompose
    return decomposition_table.get(op)


@cache
def _core_table() -> dict[OpOverload, Callable[..., Any]]:
    return dict(core_aten_decompositions().items())
