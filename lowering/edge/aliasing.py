"""Tensors that share storage, and what a write to one of them means for the others, without mutation.

Every tensor of the converted program is a Handle. A write makes a new value; handles on the same
storage notice, when next read, that theirs is out of date, and are taken anew from their base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten

Call = Callable[..., "Handle"]


class UnsupportedAliasing(Exception):
    """A mutation or alias that is not resolved here. `node` is the one of the program that has it."""

    node: Node | None = None


class Storage:
    """Memory that tensors share: how often it was written."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


class Handle:
    """A tensor: the node that holds its value, and how it was taken from its parent if it is a view.

    `val` is the fake tensor with the sizes, strides and dtype that PyTorch gives it. `view` takes
    the parent and returns this tensor's value; `inverse` takes the parent and this tensor's new
    value, and returns the parent's new value.
    """

    __slots__ = ("storage", "parent", "view", "inverse", "val", "_node", "_version")

    def __init__(
        self,
        node: Node,
        val: torch.Tensor,
        parent: Handle | None = None,
        view: Callable[[Handle], Handle] | None = None,
        inverse: Callable[[Handle, Handle], Handle] | None = None,
    ):
        self.storage = parent.storage if parent is not None else Storage()
        self.parent = parent
        self.view = view
        self.inverse = inverse
        self.val = val
        self._node = node
        self._version = self.storage.version

    @property
    def written(self) -> bool:
        """Whether the tensor, or one that shares its storage, was written to."""
        return self.storage.version > 0

    def copy(self) -> Handle:
        """Another handle on the same tensor."""
        other = Handle.__new__(Handle)
        other.become(self)
        return other

    def become(self, other: Handle) -> None:
        """Stand for the tensor that `other` stands for."""
        for name in Handle.__slots__:
            setattr(self, name, getattr(other, name))

    def node(self) -> Node:
        """The node that holds the tensor's value as of now."""
        if self._version != self.storage.version:
            self._node = self.view(self.parent).node()
            self._version = self.storage.version
        return self._node

    def write(self, value: Handle) -> None:
        """Make `value`, of the same sizes and dtype, this tensor's value, and that of its aliases."""
        if self.parent is None:
            self.storage.version += 1
        else:
            if self.inverse is None:
                raise UnsupportedAliasing("a write through a view whose place in its base is not a simple one")
            self.parent.write(self.inverse(self.parent, value))
        self._node = value.node()
        self._version = self.storage.version


def view_inverse(op: OpOverload, args: tuple[Any, ...], index: int | None, call: Call) -> Any:
    """The function (parent, value of the view) → parent with the view's part replaced.

    `args` are the view operator's arguments after the tensor, `index` says which of several
    results the view is. None where `op` has no such inverse here.
    """
    build = _INVERSES.get(op._schema.name)
    return build(call, args, index) if build else None


def _reshaped(call: Call, args: Any, index: Any) -> Any:
    if args and isinstance(args[0], torch.dtype):
        return lambda parent, value: call(aten.view.dtype, value, parent.val.dtype)
    return lambda parent, value: call(aten.view.default, value, list(parent.val.shape))


def _permuted(call: Call, args: Any, index: Any) -> Any:
    def inverse(parent: Handle, value: Handle) -> Handle:
        order = [d % len(args[0]) for d in args[0]]
        return call(aten.permute.default, value, [order.index(d) for d in range(len(order))])

    return inverse


def _transposed(call: Call, args: Any, index: Any) -> Any:
    return lambda parent, value: call(aten.transpose.int, value, *args)


def _selected(call: Call, args: Any, index: Any) -> Any:
    return lambda parent, value: call(aten.select_scatter.default, parent, value, *args)


def _unbound(call: Call, args: Any, index: Any) -> Any:
    return _selected(call, (args[0] if args else 0, index), None)


def _sliced(call: Call, args: Any, index: Any) -> Any:
    return lambda parent, value: call(aten.slice_scatter.default, parent, value, *args)


def _split(call: Call, args: Any, index: Any) -> Any:
    sizes, dim = args[0], args[1] if len(args) > 1 else 0
    start = sum(sizes[:index]) if isinstance(sizes, (list, tuple)) else sizes * index

    def inverse(parent: Handle, value: Handle) -> Handle:
        return call(aten.slice_scatter.default, parent, value, dim, start, start + value.val.shape[dim])

    return inverse


def _diagonal(call: Call, args: Any, index: Any) -> Any:
    return lambda parent, value: call(aten.diagonal_scatter.default, parent, value, *args)


def _identical(call: Call, args: Any, index: Any) -> Any:
    return lambda parent, value: value


def _expanded(call: Call, args: Any, index: Any) -> Any:
    def inverse(parent: Handle, value: Handle) -> Handle:
        # Elements that an expanded tensor repeats share memory: PyTorch refuses to write to those.
        if value.val.numel() != parent.val.numel():
            raise UnsupportedAliasing("a write to an expanded tensor")
        return call(aten.view.default, value, list(parent.val.shape))

    return inverse


_INVERSES: dict[str, Callable[[Call, Any, Any], Any]] = {
    **dict.fromkeys(("aten::view", "aten::unsqueeze", "aten::squeeze"), _reshaped),
    **dict.fromkeys(("aten::alias", "aten::detach", "aten::lift_fresh"), _identical),
    "aten::view_as_real": lambda call, args, index: (lambda p, value: call(aten.view_as_complex.default, value)),
    "aten::view_as_complex": lambda call, args, index: (lambda p, value: call(aten.view_as_real.default, value)),
    "aten::permute": _permuted,
    "aten::transpose": _transposed,
    "aten::t": lambda call, args, index: (lambda parent, value: call(aten.t.default, value)),
    "aten::select": _selected,
    "aten::unbind": _unbound,
    "aten::slice": _sliced,
    "aten::split": _split,
    "aten::split_with_sizes": _split,
    "aten::diagonal": _diagonal,
    "aten::expand": _expanded,
}
