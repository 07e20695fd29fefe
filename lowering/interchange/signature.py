"""A program's signature and module calls, to and from plain data."""

from __future__ import annotations

from typing import Any

from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

from ..errors import InvalidFileError, LoweringError
from .pytrees import decode_spec, encode_spec

_ARGUMENTS = {
    "tensor": TensorArgument,
    "int": SymIntArgument,
    "float": SymFloatArgument,
    "bool": SymBoolArgument,
}
_ARGUMENT_NAMES = {kind: name for name, kind in _ARGUMENTS.items()}


def encode_signature(signature: ExportGraphSignature) -> dict[str, Any]:
    """Plain data for a graph signature."""
    return {
        "inputs": [
            [spec.kind.name, _encode(spec.arg), spec.target, spec.persistent] for spec in signature.input_specs
        ],
        "outputs": [[spec.kind.name, _encode(spec.arg), spec.target] for spec in signature.output_specs],
    }


def decode_signature(data: dict[str, Any]) -> ExportGraphSignature:
    """The signature that `encode_signature` wrote."""
    inputs = [
        InputSpec(InputKind[kind], _decode(argument), target, persistent)
        for kind, argument, target, persistent in data["inputs"]
    ]
    outputs = [OutputSpec(OutputKind[kind], _decode(argument), target) for kind, argument, target in data["outputs"]]
    return ExportGraphSignature(inputs, outputs)


def encode_module_calls(entries: list[ModuleCallEntry]) -> list[Any]:
    """Plain data for the module call graph."""
    return [[entry.fqn, entry.signature and _encode_call(entry.signature)] for entry in entries]


def decode_module_calls(data: list[Any]) -> list[ModuleCallEntry]:
    """The module call graph that `encode_module_calls` wrote."""
    return [ModuleCallEntry(fqn, call and _decode_call(call)) for fqn, call in data]


def _encode_call(call: ModuleCallSignature) -> dict[str, Any]:
    return {
        "inputs": [_encode(argument) for argument in call.inputs],
        "outputs": [_encode(argument) for argument in call.outputs],
        "in_spec": encode_spec(call.in_spec),
        "out_spec": encode_spec(call.out_spec),
        "argument_names": call.forward_arg_names,
    }


def _decode_call(data: dict[str, Any]) -> ModuleCallSignature:
    return ModuleCallSignature(
        inputs=[_decode(argument) for argument in data["inputs"]],
        outputs=[_decode(argument) for argument in data["outputs"]],
        in_spec=decode_spec(data["in_spec"]),
        out_spec=decode_spec(data["out_spec"]),
        forward_arg_names=data["argument_names"],
    )


def _encode(argument: Any) -> list[Any]:
    if type(argument) in _ARGUMENT_NAMES:
        return [_ARGUMENT_NAMES[type(argument)], argument.name]
    if isinstance(argument, ConstantArgument):
        return ["constant", argument.name, argument.value]
    raise LoweringError(f"an input or output of kind {type(argument).__name__} cannot be written to a file")


def _decode(data: list[Any]) -> Any:
    kind, name, *rest = data
    if not isinstance(name, str):
        raise InvalidFileError("edge program: an argument's name is not a string")
    return ConstantArgument(name, rest[0]) if kind == "constant" else _ARGUMENTS[kind](name)
