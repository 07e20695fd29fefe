"""Walks the graph of a method and its bodies and emits each node; what a node becomes is said elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..errors import LoweringError
from ..format import schema
from ..format.schema import ELEMENT_SIZE, ScalarType
from .code import Code
from .config import EmitConfig
from .dtypes import scalar_type
from .pools import Pools, dense
from .shapes import Bounds, contiguous_order, dim_order, is_static, nbytes
from .spare import Spare
from .values import Place, Storage, TensorValue, ValueTable

Handler = Callable[["Emitter", Node], Any]
"""Emits a node and returns the index of its value, or a tuple of indices."""


class Emitter:
    """What has been emitted of one method.

    `env` maps each node to its value. `targets` are values that certain nodes must write their
    results to; a handler that cannot is followed by a copy. `caller_provided` are nodes whose
    result's memory comes from whoever runs the method. `spare` is the memory of graphs, where a handler asked.
    """

    def __init__(self, method: str, bounds: Bounds, pools: Pools, config: EmitConfig, handlers: Mapping[Any, Handler]):
        self.method = method
        self.bounds = bounds
        self.pools = pools
        self.config = config
        self.values = ValueTable()
        self.code = Code()
        self.env: dict[Node, Any] = {}
        self.targets: dict[Node, int] = {}
        self.caller_provided: set[Node] = set()
        self.spare: dict[Graph, Spare] = {}
        self._handlers = handlers

    def body(self, module: GraphModule, arguments: Sequence[int]) -> list[Any]:
        """Emit a graph with `arguments` as its inputs; returns the values of its outputs."""
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.env.update(zip(placeholders, arguments))
        self.nodes(module)
        for node in module.graph.nodes:  # the same graph may be the body of another branch or loop
            self.targets.pop(node, None)
        return [self.value(output) for output in body_outputs(module)]

    def nodes(self, module: GraphModule) -> None:
        """Emit the operators of a graph whose inputs have values."""
        enclosing = self.code.node
        for node in module.graph.nodes:
            if node.op == "call_function":
                self.code.node = node
                self.env[node] = self._call(node)
            elif node.op == "get_attr":
                attribute = torch.fx.graph_module._get_attr(module, node.target)
                if isinstance(attribute, torch.Tensor):
                    self.env[node] = self.constant_tensor(attribute)
        self.code.node = enclosing

    def _call(self, node: Node) -> Any:
        if node.target is operator.getitem:
            return self.env[node.args[0]][node.args[1]]
        handler = self._handlers.get(node.target) or self._handlers.get(type(node.target))
        if handler is None:
            raise LoweringError(f"there is no way to emit {node.target}", node=node)
        return handler(self, node)

    def value(self, argument: Any) -> Any:
        """The value of a node, or of a constant that stands in its place."""
        if isinstance(argument, Node):
            return self.env[argument]
        if isinstance(argument, torch.Tensor):
            return self.constant_tensor(argument)
        if argument is None or isinstance(argument, (bool, int, float, str)):
            return self.values.constant(argument)
        if isinstance(argument, torch.dtype):
            return self.values.constant(int(scalar_type(argument)))
        raise LoweringError(f"a value of type {type(argument).__name__} cannot be stored in a program")

    def result(self, value: Any, node: Node) -> int:
        """Where `node` is to put a result that looks like `value`: its target, or a new value."""
        if node in self.targets:
            return self.targets[node]
        if isinstance(value, torch.Tensor):
            place = Place.CALLER if node in self.caller_provided else Place.PLANNED
            return self.new_tensor(value, node, place)
        return self.slot(value)

    def new_tensor(self, value: torch.Tensor, node: Node, place: Place = Place.PLANNED) -> int:
        """A tensor that looks like `value`, with memory of its own."""
        tensor = self.describe(value, node)
        tensor.storage.place = place
        return self.values.add(tensor)

    def describe(self, value: torch.Tensor, node: Node) -> TensorValue:
        """What the file says of a tensor that looks like `value`."""
        kind = scalar_type(value.dtype)
        sizes = self.bounds.sizes(value.shape, node)
        order = dim_order(value)
        storage = Storage(nbytes(sizes, ELEMENT_SIZE[kind]))
        return TensorValue(kind, sizes, order, not is_static(value.shape), storage)

    def slot(self, value: Any = 0) -> int:
        """A number that an instruction computes; `value` shows its type."""
        if isinstance(value, (bool, torch.SymBool)):
            return self.values.add(schema.Bool(False))
        if isinstance(value, (float, torch.SymFloat)):
            return self.values.add(schema.Double(0.0))
        return self.values.add(schema.Int(0))

    def constant_tensor(self, tensor: torch.Tensor, order: tuple[int, ...] | None = None) -> int:
        """A tensor of the program's constants."""
        order = contiguous_order(tensor.dim()) if order is None else order
        entry = self.pools.constants.add(dense(tensor, order))
        storage = Storage(tensor.numel() * tensor.element_size(), Place.CONSTANT, entry)
        return self.values.add(TensorValue(scalar_type(tensor.dtype), tuple(tensor.shape), order, False, storage))

    def empty_tensor(self) -> int:
        """What stands for None where an operator insists on a tensor."""
        return self.values.add(TensorValue(ScalarType.UINT8, (0,), (0,), False, Storage(0)))

    def another(self, index: int) -> int:
        """A new value of the same kind as the one at `index`."""
        value = self.values.values[index]
        if not isinstance(value, TensorValue):
            return self.values.add(value)
        storage = Storage(nbytes(value.sizes, ELEMENT_SIZE[value.scalar_type]))
        alike = TensorValue(value.scalar_type, value.sizes, value.dim_order, value.dynamic, storage)
        return self.values.add(alike)

    def copy(self, source: int, target: int) -> None:
        """Copy a tensor's elements, or a number, into another value of its kind."""
        if not isinstance(self.values.values[source], TensorValue):
            return self.code.move(source, target)
        order = [self.values.constant(dim) for dim in self.values.tensor(target).dim_order]
        no, order_list = self.values.constant(False), self.values.int_list(order)
        self.code.kernel("dim_order_ops::_clone_dim_order", "out", [source, no, order_list, target, target])


def body_outputs(module: GraphModule) -> list[Any]:
    """What a graph returns, flat."""
    result = module.graph.output_node().args[0]
    return list(result) if isinstance(result, (list, tuple)) else [result]
