"""ATen operators as calls of kernels that write into tensors given to them."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from ..errors import LoweringError
from ..format import schema
from ..operators import out_variant
from .emitter import Emitter, Handler
from .inplace import overwritable_operands

_NUMBERS_OF_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1}


def emit_operator(emitter: Emitter, node: Node) -> Any:
    """Call the kernel of the out-variant of `node`'s operator.

    Raises:
        LoweringError: the operator has no out-variant, or an argument that no program can hold.
    """
    op = node.target
    assert isinstance(op, OpOverload)
    out = out_variant(op)
    extension = emitter.config.operators.kernel(op) if out is None else None
    if out is None and extension is None:
        raise LoweringError(
            f"{op} has no variant that writes into a tensor given to it, so the runtime cannot run it",
            node=node,
            remedies=["delegate the node to a backend", "express it in the model by other operators"],
        )
    results = _results(emitter, node)
    if out is not None:
        call_kernel(emitter, node, out, bound_arguments(node), results)
    else:
        _call_extension(emitter, node, extension, results)
    for operand in overwritable_operands(node):
        if isinstance(results, int) and isinstance(emitter.env.get(operand), int):
            emitter.code.may_overwrite(results, emitter.env[operand])
    return results


def bound_arguments(node: Node) -> dict[str, Any]:
    """The node's arguments by the names in its operator's schema, defaults included."""
    parameters = node.target._schema.arguments
    bound = {p.name: p.default_value for p in parameters if p.has_default_value()}
    bound.update((parameter.name, value) for parameter, value in zip(parameters, node.args))
    bound.update(node.kwargs)
    return bound


def call_kernel(
    emitter: Emitter, node: Node, kernel: OpOverload, arguments: Mapping[str, Any], results: int | tuple[int, ...]
) -> None:
    """Call `kernel` with the arguments that its schema names, and its results once more at the end.

    The runtime takes arguments in the order of the out-variant's schema, then the return value:
    the out tensor again, or a list of the out tensors where there are several.
    """
    is_list = any(p.is_out and str(p.type).startswith("List") for p in kernel._schema.arguments)
    outs = iter([results] if isinstance(results, int) else results)
    args = []
    for parameter in kernel._schema.arguments:
        if not parameter.is_out:
            args.append(_argument(emitter, parameter, arguments[parameter.name], node))
        elif is_list:
            args.append(emitter.values.add(schema.TensorList(tuple(outs))))
        else:
            args.append(next(outs))
    if isinstance(results, int):
        args.append(results)
    else:
        args.append(emitter.values.add(schema.TensorList(results)))
    emitter.code.kernel(kernel._schema.name, kernel._schema.overload_name, args)


def _call_extension(emitter: Emitter, node: Node, kernel: str, results: int | tuple[int, ...]) -> None:
    """Call a kernel of which PyTorch has the functional operator only: its results follow that one's arguments."""
    arguments = bound_arguments(node)
    args = [_argument(emitter, p, arguments[p.name], node) for p in node.target._schema.arguments]
    if isinstance(results, int):
        args += [results, results]
    else:
        args += [*results, emitter.values.add(schema.TensorList(results))]
    name, _, overload = kernel.partition(".")
    emitter.code.kernel(name, overload, args)


def _results(emitter: Emitter, node: Node) -> int | tuple[int, ...]:
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return emitter.result(value, node)
    owners = result_owners(node)
    return tuple(emitter.result(part, owners.get(index, node)) for index, part in enumerate(value))


def result_owners(node: Node) -> dict[int, Node]:
    """For each of a node's results that is used, the getitem node that takes it."""
    owners: dict[int, Node] = {}
    for user in node.users:
        if user.target is operator.getitem:
            owners.setdefault(user.args[1], user)
    return owners


def _argument(emitter: Emitter, parameter: torch.Argument, value: Any, node: Node) -> int:
    """The value for one parameter of a kernel."""
    convert, count = _converter(str(parameter.type)), parameter.N
    if value is None:
        return emitter.values.constant(None) if convert is not _tensor else emitter.empty_tensor()
    if convert in (_ints, _doubles, _bools) and not isinstance(value, (list, tuple)):
        value = [value] * (count or 1)  # a number stands for a list of them, as in `int[2] stride`
    try:
        return convert(emitter, value)
    except LoweringError as error:
        raise LoweringError(f"argument {parameter.name!r}: {error}", node=node) from None


def _tensor(emitter: Emitter, value: Any) -> int:
    if isinstance(value, (bool, int, float)):
        return emitter.constant_tensor(torch.tensor(value))
    return emitter.value(value)


def _number(emitter: Emitter, value: Any) -> int:
    if isinstance(value, torch.memory_format):
        return emitter.values.constant(_NUMBERS_OF_MEMORY_FORMATS[value])
    if isinstance(value, torch.layout):
        return emitter.values.constant(0)  # strided: there is no other
    return emitter.value(value)


def _double(emitter: Emitter, value: Any) -> int:
    return emitter.value(float(value) if isinstance(value, (bool, int)) else value)


def _ints(emitter: Emitter, value: Sequence[Any]) -> int:
    return emitter.values.int_list([emitter.value(int(v) if isinstance(v, bool) else v) for v in value])


def _doubles(emitter: Emitter, value: Sequence[float]) -> int:
    return emitter.values.double_list([float(v) for v in value])


def _bools(emitter: Emitter, value: Sequence[bool]) -> int:
    return emitter.values.bool_list([bool(v) for v in value])


def _tensors(emitter: Emitter, value: Sequence[Any]) -> int:
    items = emitter.value(value) if isinstance(value, Node) else [_tensor(emitter, v) for v in value]
    return emitter.values.add(schema.TensorList(tuple(items)))


def _optional_tensors(emitter: Emitter, value: Sequence[Any]) -> int:
    items = tuple(-1 if v is None else _tensor(emitter, v) for v in value)
    return emitter.values.add(schema.OptionalTensorList(items))


def _none(emitter: Emitter, value: Any) -> int:
    return emitter.values.constant(None)  # a device: the file has no way to say it


@cache
def _converter(type_name: str) -> Any:
    converters = {
        "Tensor": _tensor,
        "List[Tensor]": _tensors,
        "List[Optional[Tensor]]": _optional_tensors,
        "List[int]": _ints,
        "List[float]": _doubles,
        "List[bool]": _bools,
        "float": _double,
        "Device": _none,
        "Generator": _none,
    }
    if type_name.startswith("Optional["):
        inner = type_name[len("Optional[") : -1]
        return _optional_tensor if inner == "Tensor" else _converter(inner)
    return converters.get(type_name, _number)


def _optional_tensor(emitter: Emitter, value: Any) -> int:
    return _tensor(emitter, value)


def emit_to_copy(emitter: Emitter, node: Node) -> int:
    """aten._to_copy and aten.clone: the result says dtype and dim order."""
    name = {"aten::_to_copy": "_to_dim_order_copy", "aten::clone": "_clone_dim_order"}[node.target._schema.name]
    source, result = emitter.value(node.args[0]), emitter.result(node.meta["val"], node)
    order = [emitter.values.constant(dim) for dim in emitter.values.tensor(result).dim_order]
    args = [source, emitter.values.constant(False), emitter.values.int_list(order), result, result]
    emitter.code.kernel(f"dim_order_ops::{name}", "out", args)
    return result


def emit_empty(emitter: Emitter, node: Node) -> int:
    """aten.empty: memory with nothing in it, of the size that the arguments say."""
    result = emitter.result(node.meta["val"], node)
    if emitter.values.tensor(result).dynamic:
        call_kernel(emitter, node, torch.ops.aten.empty.out, bound_arguments(node), result)
    return result


def emit_item(emitter: Emitter, node: Node) -> int:
    """aten._local_scalar_dense: the number in a tensor of one element."""
    result = emitter.result(node.meta["val"], node)
    emitter.code.kernel("aten::_local_scalar_dense", None, [emitter.value(node.args[0]), result])
    return result


def emit_arange(emitter: Emitter, node: Node) -> int:
    """aten.arange.start: a step of one is what start_out asks for in addition."""
    result = emitter.result(node.meta["val"], node)
    call_kernel(emitter, node, torch.ops.aten.arange.start_out, {"step": 1, **bound_arguments(node)}, result)
    return result


def emit_nothing(emitter: Emitter, node: Node) -> None:
    """Assertions and hints to the compiler: the runtime has no use for them."""


def emit_selection(emitter: Emitter, node: Node) -> Any:
    """Operators whose result has as many elements as their data say: at most as many as their operands."""
    sources = [argument.meta["val"].shape for argument in node.args if isinstance(argument, Node)]
    elements = math.prod(emitter.bounds.sizes(torch.broadcast_shapes(*sources), node))
    emitter.bounds.bound(node.meta["val"].shape[0], elements)
    return emit_operator(emitter, node)


aten = torch.ops.aten

KERNEL_HANDLERS: dict[Any, Handler] = {
    aten._local_scalar_dense.default: emit_item,
    aten.arange.start: emit_arange,
    aten.empty.memory_format: emit_empty,
    aten.nonzero.default: emit_selection,
    aten.masked_select.default: emit_selection,
    aten.sym_constrain_range.default: emit_nothing,
    aten.sym_constrain_range_for_size.default: emit_nothing,
    aten._assert_scalar.default: emit_nothing,
    aten._assert_async.msg: emit_nothing,
    aten._assert_tensor_metadata.default: emit_nothing,
}
