"""Which operators the reference backend takes, and the instruction that each becomes.

One table serves the partitioner and preprocess: what can be encoded is supported.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from .blob import Opcode, Type

aten = torch.ops.aten

TYPES = {torch.float32: Type.FLOAT32, torch.int64: Type.INT64, torch.bool: Type.BOOL}
_TO_THE_END = 2**63 - 1


class Unsupported(Exception):
    """Why the backend does not take a node, as the end of a sentence."""


@dataclass(frozen=True)
class Encoded:
    """An instruction whose operands are still nodes; an int is a literal or the node of a number."""

    opcode: Opcode
    inputs: tuple[Node, ...] = ()
    ints: tuple[int | Node, ...] = ()
    floats: tuple[float, ...] = ()


Encoder = Callable[..., Encoded]  # called with the node, then the node's arguments


def encode(node: Node) -> Encoded:
    """The instruction for a call_function node.

    Raises:
        Unsupported: there is none.
    """
    encoder = ENCODERS.get(node.target)
    if encoder is None:
        raise Unsupported("it has no such operator")
    for tensor in (node, *node.all_input_nodes):
        _check_value(tensor)
    try:
        return encoder(node, *node.args, **node.kwargs)
    except TypeError as error:  # an argument that the encoder does not name
        raise Unsupported(f"of its arguments ({error})") from error


def is_supported(node: Node) -> bool:
    """Whether the backend takes a node; for a partitioner."""
    try:
        encode(node)
    except Unsupported:
        return False
    return True


def _check_value(node: Node) -> None:
    """Only dense tensors of a known type, and integers, can be values."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):  # of native_layer_norm: only the first output counts
        if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
            raise Unsupported("its further outputs are used")
        value = value[0]
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"{node.name} is neither a tensor nor an integer")
    if value.dtype not in TYPES:
        raise Unsupported(f"{node.name} is {value.dtype}")
    is_static = all(isinstance(size, int) for size in value.shape)
    if node.op != "placeholder" and is_static and not value.is_contiguous():
        raise Unsupported(f"{node.name} is not contiguous")


def _dtype(node: Node) -> torch.dtype:
    return node.meta["val"].dtype


def _rank(node: Node) -> int:
    return node.meta["val"].dim()


def _need_float(*nodes: Node) -> None:
    for node in nodes:
        if _dtype(node) != torch.float32:
            raise Unsupported(f"{node.name} is {_dtype(node)}, not float32")


def _unary(opcode: Opcode) -> Encoder:
    def encoder(node: Node, x: Node) -> Encoded:
        _need_float(x)
        return Encoded(opcode, (x,))

    return encoder


def _binary(opcode: Opcode, types: Sequence[torch.dtype] = (torch.float32, torch.int64)) -> Encoder:
    """Two tensors of one type, broadcast, or a tensor and a number."""

    def encoder(node: Node, a: Any, b: Any, *, alpha: float = 1) -> Encoded:
        if not isinstance(a, Node) or _dtype(a) not in types:
            raise Unsupported(f"its first operand is not a tensor of {' or '.join(map(str, types))}")
        if not isinstance(node.meta["val"], torch.Tensor) or _dtype(node) not in (_dtype(a), torch.bool):
            raise Unsupported(f"its operands are promoted from {_dtype(a)} to {_dtype(node)}")
        if isinstance(b, Node):
            if not isinstance(b.meta["val"], torch.Tensor):
                raise Unsupported(f"{b.name} is a symbolic number")
            if _dtype(b) != _dtype(a):
                raise Unsupported(f"its operands are of different types, {_dtype(a)} and {_dtype(b)}")
            return Encoded(opcode, (a, b), floats=(_exact(alpha),))
        if _dtype(a) == torch.int64 and not isinstance(b, int):
            raise Unsupported("an integer tensor meets a floating-point number")
        return Encoded(opcode, (a,), floats=(_exact(b * alpha),))

    return encoder


def _exact(number: float) -> float:
    """A number as a double, if it is one."""
    if isinstance(number, int) and int(float(number)) != number:
        raise Unsupported(f"{number} is too large")
    return float(number)


def _comparison(opcode: Opcode) -> Encoder:
    return _binary(opcode)


def _logical(opcode: Opcode) -> Encoder:
    return _binary(opcode, (torch.bool,))


def _logical_not(node: Node, x: Node) -> Encoded:
    if _dtype(x) != torch.bool:
        raise Unsupported(f"{x.name} is not bool")
    return Encoded(Opcode.LOGICAL_NOT, (x,))


def _div(node: Node, a: Node, b: Any) -> Encoded:
    _need_float(a)
    return _binary(Opcode.DIV)(node, a, b)


def _gelu(node: Node, x: Node, *, approximate: str = "none") -> Encoded:
    _need_float(x)
    return Encoded(Opcode.GELU, (x,), (int(approximate == "tanh"),))


def _softmax(node: Node, x: Node, dim: int, half_to_float: bool) -> Encoded:
    _need_float(x, node)
    return Encoded(Opcode.SOFTMAX, (x,), (_dimension(dim, x),))


def _layer_norm(
    node: Node, x: Node, shape: Sequence[int], weight: Node | None, bias: Node | None, eps: float
) -> Encoded:
    present = tuple(operand for operand in (weight, bias) if operand is not None)
    _need_float(x, *present)
    ints = (len(shape), int(weight is not None), int(bias is not None))
    return Encoded(Opcode.LAYER_NORM, (x, *present), ints, (eps,))


def _embedding(node: Node, weight: Node, indices: Node, *unused: Any, **unused_options: Any) -> Encoded:
    # padding_idx, scale_grad_by_freq and sparse matter to training only.
    _need_float(weight)
    if _dtype(indices) != torch.int64:
        raise Unsupported(f"{indices.name} is {_dtype(indices)}, not int64")
    return Encoded(Opcode.EMBEDDING, (weight, indices))


def _linear(node: Node, x: Node, weight: Node, bias: Node | None = None) -> Encoded:
    operands = (x, weight) if bias is None else (x, weight, bias)
    _need_float(*operands)
    if _rank(weight) != 2 or _rank(x) < 1:
        raise Unsupported("its weight is not a matrix")
    return Encoded(Opcode.LINEAR, operands)


def _matmul(node: Node, a: Node, b: Node) -> Encoded:
    _need_float(a, b)
    return Encoded(Opcode.MATMUL, (a, b))


def _where(node: Node, condition: Node, a: Node, b: Node) -> Encoded:
    if _dtype(condition) != torch.bool or not _dtype(a) == _dtype(b) == _dtype(node):
        raise Unsupported("its operands are of different types")
    return Encoded(Opcode.WHERE, (condition, a, b))


def _masked_fill(node: Node, a: Node, mask: Node, value: float) -> Encoded:
    _need_float(a)
    return Encoded(Opcode.MASKED_FILL, (a, mask), floats=(_exact(value),))


def _view(node: Node, x: Node, size: Sequence[int | Node]) -> Encoded:
    return Encoded(Opcode.RESHAPE, (x,), tuple(size))


def _clone(node: Node, x: Node, *, memory_format: torch.memory_format | None = None, **options: Any) -> Encoded:
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise Unsupported(f"its result is {memory_format}")
    if _dtype(node) != _dtype(x):
        raise Unsupported(f"it converts {_dtype(x)} to {_dtype(node)}")
    return Encoded(Opcode.COPY, (x,))


def _permute(node: Node, x: Node, dims: Sequence[int]) -> Encoded:
    return Encoded(Opcode.PERMUTE, (x,), tuple(_dimension(dim, x) for dim in dims))


def _transpose(node: Node, x: Node, first: int, second: int) -> Encoded:
    dims = list(range(_rank(x)))
    if dims:
        dims[first], dims[second] = dims[second], dims[first]
    return Encoded(Opcode.PERMUTE, (x,), tuple(dims))


def _t(node: Node, x: Node) -> Encoded:
    return Encoded(Opcode.PERMUTE, (x,), tuple(reversed(range(_rank(x)))))


def _expand(node: Node, x: Node, size: Sequence[int | Node], *, implicit: bool = False) -> Encoded:
    return Encoded(Opcode.EXPAND, (x,), tuple(size))


def _slice(node: Node, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Encoded:
    ints = (_dimension(dim, x), 0 if start is None else start, _TO_THE_END if end is None else end, step)
    return Encoded(Opcode.SLICE, (x,), ints)


def _select(node: Node, x: Node, dim: int, index: int | Node) -> Encoded:
    return Encoded(Opcode.SELECT, (x,), (_dimension(dim, x), index))


def _cat(node: Node, tensors: Sequence[Node], dim: int = 0) -> Encoded:
    if len({_rank(x) for x in tensors}) > 1 or len({_dtype(x) for x in tensors}) > 1:
        raise Unsupported("its operands differ in rank or type")
    return Encoded(Opcode.CAT, tuple(tensors), (_dimension(dim, tensors[0]),))


def _unsqueeze(node: Node, x: Node, dim: int) -> Encoded:
    return Encoded(Opcode.UNSQUEEZE, (x,), (_dimension(dim, node),))


def _squeeze(node: Node, x: Node, dims: int | Sequence[int]) -> Encoded:
    dims = (dims,) if isinstance(dims, int) else dims
    if any(not isinstance(x.meta["val"].shape[dim], int) for dim in dims):
        raise Unsupported("it may or may not drop a dynamic dimension")
    return Encoded(Opcode.SQUEEZE, (x,), tuple(_dimension(dim, x) for dim in dims))


def _size(node: Node, x: Node, dim: int) -> Encoded:
    return Encoded(Opcode.SIZE, (x,), (_dimension(dim, x),))


def _numbers(opcode: Opcode) -> Encoder:
    def encoder(node: Node, a: int | Node, b: int | Node) -> Encoded:
        return Encoded(opcode, (), (a, b))

    return encoder


def _dimension(dim: int, x: Node) -> int:
    """A dimension of x, counted from the front."""
    return dim % max(_rank(x), 1)


ENCODERS: dict[Any, Encoder] = {
    aten.add.Tensor: _binary(Opcode.ADD),
    aten.add.Scalar: _binary(Opcode.ADD),
    aten.sub.Tensor: _binary(Opcode.SUB),
    aten.sub.Scalar: _binary(Opcode.SUB),
    aten.mul.Tensor: _binary(Opcode.MUL),
    aten.mul.Scalar: _binary(Opcode.MUL),
    aten.div.Tensor: _div,
    aten.div.Scalar: _div,
    aten.maximum.default: _binary(Opcode.MAXIMUM),
    aten.minimum.default: _binary(Opcode.MINIMUM),
    aten.eq.Tensor: _comparison(Opcode.EQUAL),
    aten.eq.Scalar: _comparison(Opcode.EQUAL),
    aten.ne.Tensor: _comparison(Opcode.NOT_EQUAL),
    aten.ne.Scalar: _comparison(Opcode.NOT_EQUAL),
    aten.lt.Tensor: _comparison(Opcode.LESS),
    aten.lt.Scalar: _comparison(Opcode.LESS),
    aten.le.Tensor: _comparison(Opcode.LESS_EQUAL),
    aten.le.Scalar: _comparison(Opcode.LESS_EQUAL),
    aten.gt.Tensor: _comparison(Opcode.GREATER),
    aten.gt.Scalar: _comparison(Opcode.GREATER),
    aten.ge.Tensor: _comparison(Opcode.GREATER_EQUAL),
    aten.ge.Scalar: _comparison(Opcode.GREATER_EQUAL),
    aten.logical_and.default: _logical(Opcode.LOGICAL_AND),
    aten.logical_or.default: _logical(Opcode.LOGICAL_OR),
    aten.logical_not.default: _logical_not,
    aten.where.self: _where,
    aten.masked_fill.Scalar: _masked_fill,
    aten.relu.default: _unary(Opcode.RELU),
    aten.tanh.default: _unary(Opcode.TANH),
    aten.sigmoid.default: _unary(Opcode.SIGMOID),
    aten.gelu.default: _gelu,
    aten.exp.default: _unary(Opcode.EXP),
    aten.neg.default: _unary(Opcode.NEG),
    aten.abs.default: _unary(Opcode.ABS),
    aten.sqrt.default: _unary(Opcode.SQRT),
    aten.rsqrt.default: _unary(Opcode.RSQRT),
    aten._softmax.default: _softmax,
    aten.native_layer_norm.default: _layer_norm,
    aten.embedding.default: _embedding,
    aten.linear.default: _linear,
    aten.mm.default: _matmul,
    aten.bmm.default: _matmul,
    aten.view_copy.default: _view,
    aten.clone.default: _clone,
    aten._to_copy.default: _clone,
    aten.alias_copy.default: _clone,
    aten.detach_copy.default: _clone,
    aten.permute_copy.default: _permute,
    aten.transpose_copy.int: _transpose,
    aten.t_copy.default: _t,
    aten.expand_copy.default: _expand,
    aten.slice_copy.Tensor: _slice,
    aten.select_copy.int: _select,
    aten.cat.default: _cat,
    aten.unsqueeze_copy.default: _unsqueeze,
    aten.squeeze_copy.dim: _squeeze,
    aten.squeeze_copy.dims: _squeeze,
    aten.sym_size.int: _size,
    operator.add: _numbers(Opcode.ADD_NUMBERS),
    operator.sub: _numbers(Opcode.SUB_NUMBERS),
    operator.mul: _numbers(Opcode.MUL_NUMBERS),
    operator.floordiv: _numbers(Opcode.FLOORDIV_NUMBERS),
}
