"""Operators whose result is their first operand but for a part: written where the operand is, if that is safe.

The kernel of index_put_ replaces what one list of indices along one dimension says, by blocks of memory. So a
cache of which each call replaces a slice costs the slice, and not a copy of the cache or two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..format import schema
from .emitter import Emitter, Handler
from .kernels import bound_arguments, emit_operator
from .shapes import contiguous_order, dim_order, is_static, same_shape
from .views import reshaped

aten = torch.ops.aten


def updates_operand(node: Node) -> bool:
    """Whether `node`'s part can be written where its first operand is."""
    return node.target in UPDATE_HANDLERS and _part(node) is not None


def emit_update(emitter: Emitter, node: Node) -> Any:
    """Write the part in place where the operand's place is the result's, else copy the operand with it."""
    result = emitter.targets.get(node)
    if result is None or result != emitter.env.get(node.args[0]):
        return emit_operator(emitter, node)
    part = _part(node)
    assert part is not None, "only what updates_operand allows has its operand's place"
    indices = (-1,) * part.dim + (_indices(emitter, node, part),)
    values, shape = emitter.value(part.values), _shape(part, node.meta["val"])
    if part.values.meta["val"].dim() != len(shape):  # the kernel wants values of the whole's rank
        values = reshaped(emitter, values, shape, part.values)
    args = [result, emitter.values.add(schema.OptionalTensorList(indices)), values, emitter.value(False), result]
    emitter.code.kernel("aten::index_put_", None, args)
    return result


@dataclass(frozen=True)
class _Part:
    """Indices of dimension `dim`: `length` from `start` on, `step` apart, or those that the node `index` has.

    `start` is a number, not negative, or the node that computes it. `values` is the node that holds the part.
    """

    dim: int
    values: Node
    length: int = 0
    start: int | Node = 0
    step: int = 1
    index: Node | None = None


def _part(node: Node) -> _Part | None:
    """The part that an operator replaces; None where its kernel could not replace it in place."""
    whole = node.meta["val"]
    if dim_order(whole) != contiguous_order(whole.dim()) or not whole.dim():
        return None
    arguments = bound_arguments(node)
    part = _indexed(whole, arguments) if node.target is aten.index_put.default else _ranged(node, arguments)
    return part if part is not None and _fits(part, whole) else None


def _indexed(whole: torch.Tensor, arguments: Mapping[str, Any]) -> _Part | None:
    """Of index_put the kernel replaces in place what one list of indices says."""
    given = [(dim, index) for dim, index in enumerate(arguments["indices"]) if index is not None]
    if len(given) != 1 or arguments["accumulate"]:
        return None
    ((dim, index),) = given
    val, size = index.meta["val"], whole.shape[dim]
    if val.dim() != 1 or val.dtype != torch.int64 or not isinstance(val.shape[0], int) or not isinstance(size, int):
        return None
    return _Part(dim, arguments["values"], val.shape[0], index=index)


def _ranged(node: Node, arguments: Mapping[str, Any]) -> _Part | None:
    shape, values = node.meta["val"].shape, arguments["src"]
    dim = arguments["dim"] % len(shape)
    if node.target is aten.select_scatter.default:
        start, length, step = arguments["index"], 1, 1
    else:
        start, length, step = arguments["start"] or 0, values.meta["val"].shape[dim], arguments["step"]
    if not isinstance(length, int) or not isinstance(step, int):
        return None
    if isinstance(start, Node):
        return _Part(dim, values, length, start, step) if statically_known_true(start.meta["val"] >= 0) else None
    if start < 0:
        if not isinstance(shape[dim], int):
            return None
        start = max(start + shape[dim], 0)
    return _Part(dim, values, length, start, step)


def _fits(part: _Part, whole: torch.Tensor) -> bool:
    """Whether the values are the part as it lies in the whole, but for dimensions of size one: nothing is broadcast."""
    values = part.values.meta["val"]
    if values.dtype != whole.dtype:
        return False
    shape = _shape(part, whole)
    if same_shape(values.shape, shape):
        return True
    return is_static(shape) and is_static(values.shape) and values.numel() == math.prod(shape)


def _shape(part: _Part, whole: torch.Tensor) -> list[Any]:
    return [*whole.shape[: part.dim], part.length, *whole.shape[part.dim + 1 :]]


def _indices(emitter: Emitter, node: Node, part: _Part) -> int:
    """A tensor of the part's indices."""
    if part.index is not None:
        return _from_front(emitter, node, part, part.index)
    if not isinstance(part.start, Node):
        return emitter.constant_tensor(torch.arange(part.length) * part.step + part.start)
    start, step, end = emitter.value(part.start), emitter.value(part.step), emitter.slot(0)
    result = emitter.new_tensor(torch.empty((part.length,), dtype=torch.int64, device="meta"), node)
    emitter.code.kernel("executorch_prim::add", "Scalar", [start, emitter.value(part.length * part.step), end])
    emitter.code.kernel("aten::arange", "start_out", [start, end, step, result, result])
    return result


def _from_front(emitter: Emitter, node: Node, part: _Part, index: Node) -> int:
    """Indices that may count from the end, as the kernel wants them: a negative one plus the dimension's size."""
    given, size = emitter.value(index), emitter.value(node.meta["val"].shape[part.dim])
    zero, one = emitter.value(0), emitter.value(1)
    shifted, result = emitter.another(given), emitter.another(given)
    negative = emitter.new_tensor(torch.empty((part.length,), dtype=torch.bool, device="meta"), node)
    emitter.code.kernel("aten::lt", "Scalar_out", [given, zero, negative, negative])
    emitter.code.kernel("aten::add", "Scalar_out", [given, size, one, shifted, shifted])
    emitter.code.kernel("aten::where", "self_out", [negative, shifted, given, result, result])
    return result


UPDATE_HANDLERS: dict[Any, Handler] = dict.fromkeys(
    (aten.index_put.default, aten.slice_scatter.default, aten.select_scatter.default), emit_update
)
