"""The table of decompositions: which functions say what an operator is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ..schemas import copies_view, is_composite
from . import (  # noqa: F401  (they register themselves)
    attention,
    complex_numbers,
    convolution,
    elementwise,
    identities,
    normalization,
    pooling,
    products,
    random,
    recurrent,
    scalars,
    scans,
    scattering,
    searching,
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
    """PyTorch's own decomposition of `op`: towards core ATen if it can, else any that it has.

    It declines, by NotImplemented, where PyTorch's function fails: some need values that only a
    run would tell. What it has for copies of views is the view, of which a copy would be made again.
    """
    if copies_view(op):
        return None
    function = _core_table().get(op) or (op.decompose if is_composite(op) else decomposition_table.get(op))
    return _declining(function) if function is not None else None


def _declining(function: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (RuntimeError, NotImplementedError, GuardOnDataDependentSymNode):
            return NotImplemented

    return decompose


@cache
def _core_table() -> dict[OpOverload, Callable[..., Any]]:
    return dict(core_aten_decompositions().items())
