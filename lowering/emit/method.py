"""One method: its inputs, its operators, what it writes back, its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from torch.fx import Node

from ..errors import LoweringError
from .config import EmitConfig
from .control_flow import CONTROL_FLOW_HANDLERS
from .convolution import CONVOLUTION_HANDLERS
from .delegates import DELEGATE_HANDLERS
from .emitter import Emitter, Handler
from .kernels import KERNEL_HANDLERS, emit_operator
from .pools import Pools, dense
from .shapes import Bounds, dim_order
from .symbolic import SYMBOLIC_HANDLERS
from .updates import UPDATE_HANDLERS
from .values import Place, Storage, TensorValue
from .views import VIEW_HANDLERS
from .writeback import Mutation, write_back, write_in_place

_HANDLERS: dict[Any, Handler] = {
    OpOverload: emit_operator,
    **KERNEL_HANDLERS,
    **CONVOLUTION_HANDLERS,
    **UPDATE_HANDLERS,
    **VIEW_HANDLERS,
    **SYMBOLIC_HANDLERS,
    **CONTROL_FLOW_HANDLERS,
    **DELEGATE_HANDLERS,
}
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclass(frozen=True)
class EmittedMethod:
    """A method's code, with its inputs and outputs by value, before memory is planned."""

    emitter: Emitter
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def emit_method(name: str, program: ExportedProgram, pools: Pools, config: EmitConfig) -> EmittedMethod:
    """Emit the graph of one edge program.

    Raises:
        LoweringError: the program has something that the runtime or the file format cannot do.
    """
    emitter = Emitter(name, Bounds(program), pools, config, _HANDLERS)
    try:
        return _emit(emitter, program)
    except LoweringError as error:
        raise LoweringError(f"method {name!r}: {error}") from error


def _emit(emitter: Emitter, program: ExportedProgram) -> EmittedMethod:
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    mutations = _mutations(program, placeholders)
    mutated = {mutation.placeholder for mutation in mutations}
    inputs = []
    for node, spec in zip(placeholders, signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            emitter.env[node] = _user_input(emitter, node, spec, node in mutated)
            inputs.append(emitter.env[node])
        elif node.users or node in mutated:
            emitter.env[node] = _owned(emitter, node, spec, program, node in mutated)
    returned = _returned(program)
    if not emitter.config.memory_of(emitter.method).alloc_graph_output:
        emitter.caller_provided.update(n for n in returned if isinstance(n, Node) and n.op == "call_function")
    remaining = write_in_place(emitter, program.graph, mutations)
    emitter.nodes(program.graph_module)
    outputs = [_own_memory(emitter, emitter.value(output), set(inputs)) for output in returned]
    outputs = write_back(emitter, remaining, outputs)
    return EmittedMethod(emitter, tuple(inputs), tuple(outputs))


def _mutations(program: ExportedProgram, placeholders: list[Node]) -> list[Mutation]:
    """The placeholders that the method writes back to, with the nodes that hold the new values."""
    signature = program.graph_signature
    by_name = {node.name: node for node in placeholders}
    by_target = {
        spec.target: node
        for node, spec in zip(placeholders, signature.input_specs)
        if spec.kind in (InputKind.BUFFER, InputKind.PARAMETER)
    }
    mutations = []
    for spec, output in zip(signature.output_specs, program.graph.output_node().args[0]):
        if spec.kind in _MUTATIONS:
            by = by_name if spec.kind == OutputKind.USER_INPUT_MUTATION else by_target
            mutations.append(Mutation(by[spec.target], output))
        elif spec.kind != OutputKind.USER_OUTPUT:
            raise LoweringError(
                f"outputs of kind {spec.kind.name} (training) cannot be emitted",
                remedies=["export the model for inference"],
            )
    return [mutation for mutation in mutations if mutation.value is not mutation.placeholder]


def _returned(program: ExportedProgram) -> list[Any]:
    outputs = zip(program.graph_signature.output_specs, program.graph.output_node().args[0])
    return [output for spec, output in outputs if spec.kind == OutputKind.USER_OUTPUT]


def _own_memory(emitter: Emitter, output: int, inputs: set[int]) -> int:
    """An output that the runtime may give memory to: that of an input or a .ptd file it must not replace."""
    tensor = emitter.values.values[output]
    if not isinstance(tensor, TensorValue):
        return output
    borrowed = tensor.storage.place is Place.CALLER and output in inputs
    if not (borrowed or tensor.storage.place is Place.EXTERNAL or tensor.rewired):
        return output
    copied = emitter.another(output)
    if not emitter.config.memory_of(emitter.method).alloc_graph_output:
        emitter.values.tensor(copied).storage.place = Place.CALLER
    emitter.copy(output, copied)
    return copied


def _user_input(emitter: Emitter, node: Node, spec: InputSpec, mutated: bool) -> int:
    argument = spec.arg
    if isinstance(argument, ConstantArgument):
        return emitter.value(argument.value)
    if isinstance(argument, (SymIntArgument, SymFloatArgument, SymBoolArgument)):
        raise LoweringError(
            f"input {node.name!r} is a number that varies, which the runtime cannot take",
            node=node,
            remedies=["pass a tensor of one element and call .item() on it", "export the number as a constant"],
        )
    # What the method changes must be the caller's own tensor, so it is not copied into planned memory.
    planned = emitter.config.memory_of(emitter.method).alloc_graph_input and not mutated
    return emitter.new_tensor(node.meta["val"], node, Place.PLANNED if planned else Place.CALLER)


def _owned(emitter: Emitter, node: Node, spec: InputSpec, program: ExportedProgram, mutated: bool) -> int | None:
    """A parameter, buffer or constant of the program."""
    assert spec.target is not None
    tensor = _content(program, spec.target, node)
    if mutated:
        return _state(emitter, node, spec.target, tensor)
    tag = emitter.config.external_tag(node) if spec.kind != InputKind.CONSTANT_TENSOR else None
    order = dim_order(node.meta["val"])
    if tag is None:
        return emitter.constant_tensor(tensor, order)
    described = emitter.describe(node.meta["val"], node)
    described.dim_order = order
    described.storage.place, described.storage.name = Place.EXTERNAL, spec.target
    emitter.pools.external.add(tag, spec.target, tensor, order)
    return emitter.values.add(described)


def _content(program: ExportedProgram, target: str, node: Node) -> torch.Tensor:
    tensor = program.state_dict.get(target, program.constants.get(target))
    if not isinstance(tensor, torch.Tensor):
        what = "is missing" if tensor is None else f"is a {type(tensor).__name__}, not a tensor"
        raise LoweringError(f"constant {target!r} {what}", node=node)
    return tensor.detach()


def _state(emitter: Emitter, node: Node, name: str, tensor: torch.Tensor) -> int:
    memory = emitter.config.memory_of(emitter.method)
    order = dim_order(node.meta["val"])
    slot = emitter.pools.state.add(name, dense(tensor, order), memory.share_mutable_buffers, memory.alignment)
    described = emitter.describe(node.meta["val"], node)
    described.storage = Storage(described.storage.nbytes, Place.STATE, slot, name)
    described.initial = emitter.pools.state.slots[slot].entry
    return emitter.values.add(described)

