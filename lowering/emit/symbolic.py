"""Arithmetic on sizes: Python's and torch's operators on SymInts, as primitive instructions on numbers."""

from __future__ import annotations

import builtins
import math
import operator
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from ..errors import LoweringError
from .emitter import Emitter, Handler

_PRIMITIVES: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.truediv: "truediv",
    operator.mod: "mod",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.gt: "gt",
    operator.lt: "lt",
    operator.ge: "ge",
    operator.le: "le",
    operator.not_: "sym_not",
    builtins.round: "round",
    math.ceil: "ceil",
    math.trunc: "trunc",
    torch.sym_float: "sym_float",
    torch.sym_int: "sym_int",
    torch.sym_max: "sym_max",
    torch.sym_min: "sym_min",
    torch.sym_not: "sym_not",
    torch.sym_ite: "sym_ite",
    builtins.max: "sym_max",
    builtins.min: "sym_min",
}


def _primitive(name: str, emitter: Emitter, node: Node) -> int:
    operands = [emitter.value(argument) for argument in node.args]
    return _emit(emitter, name, operands, emitter.result(node.meta["val"], node))


def _emit(emitter: Emitter, name: str, operands: list[int], result: int) -> int:
    emitter.code.kernel(f"executorch_prim::{name}", "Scalar", [*operands, result])
    return result


def _not_equal(emitter: Emitter, node: Node) -> int:
    equal = _emit(emitter, "eq", [emitter.value(argument) for argument in node.args], emitter.slot(False))
    return _emit(emitter, "sym_not", [equal], emitter.result(node.meta["val"], node))


def _sum(emitter: Emitter, node: Node) -> int:
    terms = node.args[0] if len(node.args) == 1 and isinstance(node.args[0], (list, tuple)) else node.args
    total = emitter.value(terms[0])
    for term in terms[1:]:
        total = _emit(emitter, "add", [total, emitter.value(term)], emitter.slot(node.meta["val"]))
    return total


def _power(emitter: Emitter, node: Node) -> int:
    base, exponent = node.args
    if not isinstance(exponent, int) or exponent < 0:
        raise LoweringError("a size can be raised only to a power that is known when the model is built", node=node)
    value = emitter.value(1)
    for _ in range(exponent):
        value = _emit(emitter, "mul", [value, emitter.value(base)], emitter.slot(node.meta["val"]))
    return value


def _floor(emitter: Emitter, node: Node) -> int:
    floored = _emit(emitter, "floordiv", [emitter.value(node.args[0]), emitter.value(1.0)], emitter.slot(0.0))
    return _emit(emitter, "sym_int", [floored], emitter.result(node.meta["val"], node))


def _and(emitter: Emitter, node: Node) -> int:
    left, right = map(emitter.value, node.args)
    return _emit(emitter, "sym_ite", [left, right, emitter.value(False)], emitter.result(node.meta["val"], node))


def _or(emitter: Emitter, node: Node) -> int:
    left, right = map(emitter.value, node.args)
    return _emit(emitter, "sym_ite", [left, emitter.value(True), right], emitter.result(node.meta["val"], node))


def _size(emitter: Emitter, node: Node) -> int:
    tensor, dim = node.args
    size = tensor.meta["val"].shape[dim]
    if isinstance(size, int):
        return emitter.value(size)
    result = emitter.result(node.meta["val"], node)
    emitter.code.kernel("aten::sym_size", "int", [emitter.value(tensor), emitter.value(dim), result])
    return result


def _numel(emitter: Emitter, node: Node) -> int:
    result = emitter.result(node.meta["val"], node)
    emitter.code.kernel("aten::sym_numel", None, [emitter.value(node.args[0]), result])
    return result


SYMBOLIC_HANDLERS: dict[Any, Handler] = {
    **{target: partial(_primitive, name) for target, name in _PRIMITIVES.items()},
    operator.ne: _not_equal,
    operator.pow: _power,
    operator.and_: _and,
    operator.or_: _or,
    math.floor: _floor,
    torch.sym_sum: _sum,
    torch.ops.aten.sym_size.int: _size,
    torch.ops.aten.sym_numel.default: _numel,
}
