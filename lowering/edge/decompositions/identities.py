"""Operators that change nothing for these arguments: their result is their input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten

_AS_IT_IS = (None, torch.preserve_format)


@decomposes(aten.clone.default)
def clone(self: Any, *, memory_format: torch.memory_format | None = None) -> Any:
    return self if memory_format in _AS_IT_IS else NotImplemented


@decomposes(aten._to_copy.default)
def to_copy(
    self: Any, *, dtype: Any = None, memory_format: torch.memory_format | None = None, **_: Any
) -> Any:
    return self if dtype in (None, self.dtype) and memory_format in _AS_IT_IS else NotImplemented


@decomposes(aten.lift_fresh_copy.default, aten.alias_copy.default, aten.detach_copy.default)
def copy_of_all(self: Any) -> Any:
    return self


@decomposes(aten.transpose_copy.int)
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    return self if self.dim() == 0 else NotImplemented


@decomposes(aten.t_copy.default)
def t(self: Any) -> Any:
    return self if self.dim() < 2 else NotImplemented


@decomposes(aten.expand_copy.default)
def expand(self: Any, size: Sequence[Any], *, implicit: bool = False) -> Any:
    unchanged = len(size) == self.dim() and all(
        wanted == -1 or _same(wanted, actual) for wanted, actual in zip(size, self.shape)
    )
    return self if unchanged else NotImplemented


@decomposes(aten.repeat.default)
def repeat(self: Any, repeats: Sequence[Any]) -> Any:
    unchanged = len(repeats) == self.dim() and all(isinstance(r, int) and r == 1 for r in repeats)
    return self if unchanged else NotImplemented


@decomposes(aten.cat.default)
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    # A tensor of sizes [0] may be concatenated with anything, and adds nothing.
    parts = [t for t in tensors if not (t.dim() == 1 and isinstance(t.shape[0], int) and t.shape[0] == 0)]
    if not parts or any(part.dtype != tensors[0].dtype for part in tensors):
        return NotImplemented
    if len(parts) == 1:
        return parts[0]
    return NotImplemented if len(parts) == len(tensors) else aten.cat.default(parts, dim)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt) and a.node.expr == b.node.expr
