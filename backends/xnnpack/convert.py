"""A program's nodes → a graph of XNNPACK's nodes, through the table of operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from rules_executorch.lowering.edge.layout import is_channels_last
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .builder import FLOATS, Builder, check_sizes
from .graph import Graph, Unsupported, Value
from .operators import encode, encoder_of
from .operators.quantized import INTEGERS, quantization_of
from .schema import DataType

LIFTED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Converter:
    """Values of the nodes converted so far, and the builder that they are appended to.

    `data_of` gives, of a placeholder that is constant, what gives its data when asked; None of others.
    """

    def __init__(self, data_of: Callable[[torch.fx.Node], Callable[[], torch.Tensor] | None]):
        self.builder = Builder()
        self.values: dict[torch.fx.Node, Any] = {}
        self._data_of = data_of

    def convert(self, node: torch.fx.Node) -> Any:
        """The Value of a call_function node, or a tuple of them. Raises Unsupported."""
        self.builder.source, self.builder.debug_handle = node, node.meta.get("debug_handle", 0)
        if node.target is operator.getitem:
            return self.operand(node.args[0])[node.args[1]]
        encoder = encoder_of(node.target)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.operand)
        result = encode(self.builder, encoder, node.meta["val"], args, kwargs)
        if isinstance(result, tuple):
            _check_items(node, result)
        return result

    def operand(self, node: torch.fx.Node) -> Any:
        """A node's value as an argument: a Value, a tuple of them, or a number. Raises Unsupported."""
        if node not in self.values:
            self.values[node] = self._outside(node)
        return self.values[node]

    def _outside(self, node: torch.fx.Node) -> Any:
        """What comes from outside of what was converted: an input or a constant, or a known tuple's item."""
        if node.target is operator.getitem and node.args[0] in self.values:
            return self.values[node.args[0]][node.args[1]]
        val = node.meta.get("val")
        if isinstance(val, (list, tuple)):
            return tuple(_input(node, item) if isinstance(item, torch.Tensor) else None for item in val)
        if not isinstance(val, torch.Tensor):
            return val
        data = self._data_of(node) if node.op == "placeholder" else None
        if data is not None:
            return Value(tuple(val.shape), FLOATS.get(val.dtype, DataType.INT32), data)
        return _input(node, val)


def _input(node: torch.fx.Node, val: torch.Tensor) -> Value:
    if val.dtype in INTEGERS:
        return Value(tuple(val.shape), INTEGERS[val.dtype], quantization=quantization_of(node))
    if val.dtype not in FLOATS:
        raise Unsupported(f"XNNPACK has no values of {val.dtype}, which {node.name} is")
    check_sizes(val.shape)
    return Value(tuple(val.shape), FLOATS[val.dtype])


def _check_items(node: torch.fx.Node, results: tuple[Any, ...]) -> None:
    for user in node.users:
        if user.target is operator.getitem and results[user.args[1]] is None:
            raise Unsupported(f"its result {user.args[1]} is used")


def convert_program(program: ExportedProgram) -> Graph:
    """The graph of one partition. Raises Unsupported, with the node in `node` of the exception."""
    placeholders = program.graph.find_nodes(op="placeholder")
    specs = dict(zip(placeholders, program.graph_signature.input_specs))
    data = {node: _data(program, spec.target) for node, spec in specs.items() if spec.kind in LIFTED}
    converter = Converter(data.get)
    inputs = [node for node, spec in specs.items() if spec.kind not in LIFTED]
    for node in program.graph.nodes:
        if node.op == "call_function":
            try:
                converter.values[node] = converter.convert(node)
            except Unsupported as reason:
                reason.node = node
                raise
    outputs = program.graph.output_node().args[0]
    values = [converter.values.get(node) for node in inputs]
    return Graph(
        inputs=tuple(value if isinstance(value, Value) else None for value in values),
        outputs=tuple(converter.operand(node) for node in outputs),
        nodes=tuple(converter.builder.nodes),
        input_channels_last=tuple(is_channels_last(node.meta.get("val")) for node in inputs),
        output_channels_last=tuple(is_channels_last(node.meta["val"]) for node in outputs),
    )


def _data(program: ExportedProgram, name: str) -> Callable[[], torch.Tensor]:
    tensors: Any = program.state_dict if name in program.state_dict else program.constants
    return lambda: tensors[name].detach()
