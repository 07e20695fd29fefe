"""Views: results whose elements are their operand's, in the same order, cost nothing where sizes are known."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from ..format.schema import ELEMENT_SIZE
from .emitter import Emitter, Handler
from .kernels import bound_arguments, emit_operator, emit_to_copy, result_owners
from .shapes import RESHAPES, is_static

aten = torch.ops.aten

_PERMUTES = (aten.permute_copy.default, aten.transpose_copy.int, aten.t_copy.default)
_PARTS = (aten.select_copy.int, aten.slice_copy.Tensor)
_SPLITS = (aten.split_with_sizes_copy.default, aten.split_copy.Tensor, aten.unbind_copy.int)


def _reshape(emitter: Emitter, node: Node) -> Any:
    view = _whole_view(emitter, node)
    return emit_operator(emitter, node) if view is None else view


def _whole_view(emitter: Emitter, node: Node) -> int | None:
    """All of the operand in another shape: for nothing, or for one instruction that copies no element."""
    view = _view(emitter, node, 0)
    return _rewired_view(emitter, node) if view is None else view


def _dtype_view(emitter: Emitter, node: Node) -> int:
    """The same bytes as another dtype: for nothing where sizes and the operand's place are known."""
    base = emitter.value(node.args[0])
    source = emitter.values.tensor(base)
    if not (source.addressable and source.contiguous):
        base, copied_from = emitter.another(base), base
        emitter.copy(copied_from, base)
        source = emitter.values.tensor(base)
    view = emitter.describe(node.meta["val"], node)
    view.storage, view.offset = source.storage, source.offset
    result = emitter.values.add(view)
    if view.dynamic:  # `empty` sets the sizes, and touches no element
        sizes, null = emitter.values.int_list(_sizes_as_dtype(emitter, node, base)), emitter.value(None)
        emitter.code.kernel("aten::empty", "out", [sizes, null, result, result])
    return result


def _sizes_as_dtype(emitter: Emitter, node: Node, base: int) -> list[int]:
    """The sizes of the tensor at `base`, the last one by elements of the dtype that `node` gives it."""
    sizes = []
    for dim, size in enumerate(node.meta["val"].shape):
        if isinstance(size, int):
            sizes.append(emitter.value(size))
        else:
            sizes.append(emitter.slot(size))
            emitter.code.kernel("aten::sym_size", "int", [base, emitter.value(dim), sizes[-1]])
    before, after = (tensor.meta["val"].dtype.itemsize for tensor in (node.args[0], node))
    if before != after and not isinstance(node.meta["val"].shape[-1], int):
        count = emitter.slot()
        name, factor = ("mul", before // after) if before > after else ("floordiv", after // before)
        emitter.code.kernel(f"executorch_prim::{name}", "Scalar", [sizes[-1], emitter.value(factor), count])
        sizes[-1] = count
    return sizes


def _permute(emitter: Emitter, node: Node) -> Any:
    """Moving only dimensions of size one moves no element."""
    sizes = node.args[0].meta["val"].shape
    moved = [dim for dim in _permutation(node, len(sizes)) if not (isinstance(sizes[dim], int) and sizes[dim] == 1)]
    if moved == sorted(moved):
        return _reshape(emitter, node)
    return emit_operator(emitter, node)


def _permutation(node: Node, rank: int) -> list[int]:
    dims = list(range(rank))
    if node.target is aten.permute_copy.default:
        return [dim % rank for dim in node.args[1]]
    if node.target is aten.t_copy.default:
        return dims[::-1]
    a, b = node.args[1] % rank, node.args[2] % rank
    dims[a], dims[b] = b, a
    return dims


def _part(emitter: Emitter, node: Node) -> Any:
    """One index or a range of the outermost dimension is one piece of memory."""
    shape = node.args[0].meta["val"].shape
    arguments = bound_arguments(node)
    start = arguments["index"] if node.target is aten.select_copy.int else arguments["start"] or 0
    if is_static(shape) and isinstance(start, int) and arguments.get("step", 1) == 1:
        dim = arguments["dim"] % len(shape)
        start = max(start + shape[dim], 0) if start < 0 else min(start, shape[dim])
        if math.prod(shape[:dim]) == 1:
            view = _view(emitter, node, start * math.prod(shape[dim + 1 :]))
            if view is not None:
                return view
    return emit_operator(emitter, node)


def _split(emitter: Emitter, node: Node) -> Any:
    """The pieces of the outermost dimension follow each other in memory."""
    source, shape = node.args[0], node.args[0].meta["val"].shape
    dim = bound_arguments(node)["dim"] % max(len(shape), 1)
    owners = result_owners(node)
    free = is_static(shape) and math.prod(shape[:dim]) == 1
    base = emitter.env.get(source)
    if not free or not isinstance(base, int) or any(_pinned(emitter, owner) for owner in owners.values()):
        return emit_operator(emitter, node)
    pieces, position = [], 0
    for piece in node.meta["val"]:
        view = view_of(emitter, base, piece, node, position)
        if view is None:
            return emit_operator(emitter, node)
        pieces.append(view)
        position += piece.numel()
    return tuple(pieces)


def _clone(emitter: Emitter, node: Node) -> Any:
    """A copy that changes neither dtype nor layout is a view in a program that mutates nothing."""
    source, value = node.args[0].meta["val"], node.meta["val"]
    if source.dtype == value.dtype and not _returns_input(emitter, node):
        view = _whole_view(emitter, node)
        if view is not None:
            return view
    return emit_to_copy(emitter, node)


def _returns_input(emitter: Emitter, node: Node) -> bool:
    """A copy that the method returns and that is all there is to it: the caller asked for its own."""
    return any(user.op == "output" for user in node.users) and node.args[0].op == "placeholder"


def _pinned(emitter: Emitter, node: Node) -> bool:
    """Whether the result must be in a certain place."""
    return node in emitter.targets or node in emitter.caller_provided


def _view(emitter: Emitter, node: Node, elements: int) -> int | None:
    base = emitter.env.get(node.args[0])
    if not isinstance(base, int) or _pinned(emitter, node):
        return None
    return view_of(emitter, base, node.meta["val"], node, elements)


def view_of(emitter: Emitter, base: int, value: torch.Tensor, node: Node, elements: int) -> int | None:
    """A second tensor in the memory of `base`, so many elements in; None if it needs an instruction."""
    source = emitter.values.tensor(base)
    view = emitter.describe(value, node)
    if source.dynamic or view.dynamic or not source.addressable or not (source.contiguous and view.contiguous):
        return None
    view.storage = source.storage
    view.offset = source.offset + elements * ELEMENT_SIZE[source.scalar_type]
    return emitter.values.add(view)


def reshaped(emitter: Emitter, base: int, shape: Sequence[int], node: Node) -> int:
    """The static tensor at `base`, which `node` made, in another shape, for nothing or for one instruction."""
    value = torch.empty(tuple(shape), dtype=node.meta["val"].dtype, device="meta")
    view = view_of(emitter, base, value, node, 0)
    if view is None:
        view = _rewire(emitter, base, value, node, emitter.values.int_list([emitter.value(size) for size in shape]))
    return view


def _rewired_view(emitter: Emitter, node: Node) -> int | None:
    """A tensor that gets its operand's address while the method runs; None where that cannot be said.

    Of its sizes at most one may be left for the runtime to find, unless the operator names them.
    """
    base = emitter.env.get(node.args[0])
    if not isinstance(base, int) or _pinned(emitter, node) or any(user.op == "output" for user in node.users):
        return None
    if not (emitter.values.tensor(base).contiguous and emitter.describe(node.meta["val"], node).contiguous):
        return None
    sizes = _sizes(emitter, node)
    return None if sizes is None else _rewire(emitter, base, node.meta["val"], node, sizes)


def _rewire(emitter: Emitter, base: int, value: torch.Tensor, node: Node, sizes: int) -> int:
    source, view = emitter.values.tensor(base), emitter.describe(value, node)
    view.storage, view.offset, view.rewired = source.storage, source.offset, True
    result = emitter.values.add(view)
    emitter.code.kernel("executorch_prim::et_view", "default", [base, sizes, result])
    return result


def _sizes(emitter: Emitter, node: Node) -> int | None:
    if node.target in (aten.view_copy.default, aten.view.default, aten._unsafe_view.default):
        return emitter.values.int_list([emitter.value(size) for size in node.args[1]])
    shape = node.meta["val"].shape
    if sum(not isinstance(size, int) for size in shape) > 1 or 0 in [s for s in shape if isinstance(s, int)]:
        return None
    return emitter.values.int_list([emitter.value(size if isinstance(size, int) else -1) for size in shape])


VIEW_HANDLERS: dict[Any, Handler] = {
    **{op: _reshape for op in RESHAPES},
    aten.view_copy.dtype: _dtype_view,
    **{op: _permute for op in _PERMUTES},
    **{op: _part for op in _PARTS},
    **{op: _split for op in _SPLITS},
    aten.clone.default: _clone,
    aten._to_copy.default: _clone,
}


def is_view(node: Node) -> bool:
    """Whether the node's result may lie in its operand's memory."""
    if node.target is operator.getitem:
        return is_view(node.args[0])
    return node.target in VIEW_HANDLERS

