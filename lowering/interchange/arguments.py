"""What nodes call and with what: targets and arguments, to and from plain data.

Numbers, strings, booleans and None are themselves; everything else is a list that starts with its kind.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch._higher_order_ops  # registers the control-flow operators
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from ..errors import InvalidFileError, LoweringError
from .expressions import ExpressionReader, ExpressionWriter
from .values import DTYPE_NAMES, DTYPES, LAYOUTS, MEMORY_FORMATS, decode_number, encode_number

_PYTHON: Mapping[str, Callable[..., Any]] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in (
            "getitem", "add", "mul", "sub", "truediv", "floordiv", "mod", "pow", "neg", "abs", "lshift", "rshift",
            "ge", "le", "gt", "lt", "eq", "ne", "and_", "or_", "not_",
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc")},
    **{
        f"torch.{name}": getattr(torch, name)
        for name in ("sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum")
    },
    "torch.sym_sqrt": torch._sym_sqrt,
    "round": round,
}  # fmt: skip
# Modules that register operators which exported programs call, imported when such a program is read.
_REGISTERED_BY = {
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao.quantization.quant_primitives",
}
_PYTHON_NAMES = {function: name for name, function in _PYTHON.items()}


def encode_target(target: Any) -> list[str]:
    """A call_function node's target. Raises LoweringError for one that files do not hold."""
    if isinstance(target, OpOverload):
        return ["operator", target._schema.name, target._overloadname]
    if isinstance(target, HigherOrderOperator):
        return ["higher_order", target.name()]
    if target in _PYTHON_NAMES:
        return ["python", _PYTHON_NAMES[target]]
    raise LoweringError(f"a call of {target} cannot be written to a file")


def decode_target(data: Sequence[str]) -> Any:
    """What `encode_target` wrote. Raises InvalidFileError where this process knows no such operator."""
    kind, name, *rest = data
    if kind == "python" and name in _PYTHON:
        return _PYTHON[name]
    if kind == "higher_order":
        found = getattr(torch.ops.higher_order, name, None)
        if isinstance(found, HigherOrderOperator):
            return found
    elif kind == "operator":
        namespace, _, short = name.partition("::")
        if namespace in _REGISTERED_BY:
            with suppress(ImportError):  # then the operator is not known, as is said below
                importlib.import_module(_REGISTERED_BY[namespace])
        packet = getattr(getattr(torch.ops, namespace, None), short, None)
        found = getattr(packet, rest[0], None)
        if isinstance(found, OpOverload):
            return found
    raise InvalidFileError(
        f"edge program: operator {'.'.join([name, *rest])} is not known here; import the library that registers it"
    )


def encode_argument(argument: Any, indices: Mapping[Node, int], expressions: ExpressionWriter) -> Any:
    """One argument of a node; `indices` number the nodes of the graph."""
    if isinstance(argument, Node):
        return ["node", indices[argument]]
    if argument is None or type(argument) in (bool, int, float, str):
        return argument
    if isinstance(argument, (list, tuple)):
        kind = "list" if isinstance(argument, list) else "tuple"
        return [kind, *(encode_argument(item, indices, expressions) for item in argument)]
    if isinstance(argument, dict):
        items = argument.items()
        return ["dict", *([key, encode_argument(item, indices, expressions)] for key, item in items)]
    if isinstance(argument, torch.dtype):
        return ["dtype", DTYPE_NAMES[argument]]
    if isinstance(argument, (torch.memory_format, torch.layout, torch.device)):
        return [type(argument).__name__, str(argument)]
    if isinstance(argument, complex):
        return ["complex", argument.real, argument.imag]
    if isinstance(argument, slice):
        parts = (argument.start, argument.stop, argument.step)
        return ["slice", *(encode_argument(part, indices, expressions) for part in parts)]
    if isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return ["number", encode_number(argument, expressions)]
    if isinstance(argument, (OpOverload, HigherOrderOperator)):
        return encode_target(argument)
    raise LoweringError(f"an argument of type {type(argument).__name__} cannot be written to a file")


def decode_argument(data: Any, nodes: Sequence[Node], expressions: ExpressionReader) -> Any:
    """The argument that `encode_argument` wrote; `nodes` are those that come before."""
    if not isinstance(data, list):
        return data
    kind = data[0]
    if kind == "node":
        if data[1] < 0:
            raise InvalidFileError("edge program: a node's number is negative")
        return nodes[data[1]]
    if kind == "list":
        return [decode_argument(item, nodes, expressions) for item in data[1:]]
    if kind == "tuple":
        return tuple([decode_argument(item, nodes, expressions) for item in data[1:]])
    if kind == "dict":
        return {key: decode_argument(item, nodes, expressions) for key, item in data[1:]}
    if kind == "dtype":
        return DTYPES[data[1]]
    if kind == "memory_format":
        return MEMORY_FORMATS[data[1]]
    if kind == "layout":
        return LAYOUTS[data[1]]
    if kind == "device":
        return torch.device(data[1])
    if kind == "complex":
        return complex(data[1], data[2])
    if kind == "slice":
        return slice(*(decode_argument(part, nodes, expressions) for part in data[1:4]))
    if kind == "number":
        return decode_number(data[1], expressions)
    return decode_target(data)
