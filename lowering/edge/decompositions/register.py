"""The registry that the modules of this folder fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._ops import OpOverload

Decomposition = TypeVar("Decomposition", bound=Callable[..., Any])

TABLE: dict[OpOverload, list[Callable[..., Any]]] = {}


def decomposes(*ops: OpOverload) -> Callable[[Decomposition], Decomposition]:
    """Register a function as a decomposition of `ops`.

    It takes the operator's arguments and returns its result, made with operators of `torch.ops.aten`.
    It is run on fake tensors only, once per distinct signature of its arguments: what it asks of
    sizes and dtypes is decided at build time. It returns NotImplemented to leave the operator as
    it is, and must not come back to the same operator on the same arguments.
    """

    def register(function: Decomposition) -> Decomposition:
        for op in ops:
            TABLE.setdefault(op, []).append(function)
        return function

    return register
