"""Memory layout: every tensor of an edge program is dense, in the default order or channels-last.

A kernel writes what it is told to write, whatever strides PyTorch would have given the result. So
here each value gets the layout that it will have on the device: default, unless it comes from a
channels-last tensor through operators whose kernels work in that order.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from .parts import is_delegate_call

aten = torch.ops.aten

# Operators whose kernels take and give channels-last tensors, if all their 4-D tensors are.
_FOLLOWING = frozenset(
    {
        aten.convolution.default,
        aten.max_pool2d_with_indices.default,
        aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor,
        aten.maximum.default, aten.minimum.default,
        aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar,
        aten.relu.default, aten.hardtanh.default, aten.clamp.default, aten.leaky_relu.default, aten.elu.default,
        aten.sigmoid.default, aten.tanh.default, aten.gelu.default, aten.exp.default, aten.abs.default,
        aten.neg.default,
        aten.sqrt.default, aten.rsqrt.default, aten.reciprocal.default,
        aten._to_copy.default, aten.clone.default,
    }
)  # fmt: skip

_CONVERTING = (aten._to_copy.default, aten.clone.default)
_FORMATS = {torch.contiguous_format: False, torch.channels_last: True, torch.channels_last_3d: True}


def assign_layouts(
    graph: Graph, modules: Mapping[str, Any], fake_mode: FakeTensorMode, written: Mapping[int, str]
) -> None:
    """Give each value of `graph` and of the bodies among `modules` its layout; convert where a kernel wants another.

    `written` says which results, by position, are written to which placeholders, whose layout they need.
    """
    layouts = _Layouts(graph, fake_mode)
    for node in list(graph.nodes):
        layouts.assign(node)
    layouts.convert_results(graph.output_node(), written)
    for body in modules.values():
        if isinstance(body, GraphModule):
            _assign_in_body(body, fake_mode)


def _assign_in_body(body: GraphModule, fake_mode: FakeTensorMode) -> None:
    """What goes in and out of loops and branches is in the default order."""
    layouts = _Layouts(body.graph, fake_mode, default_only=True)
    for node in list(body.graph.nodes):
        layouts.assign(node)
    layouts.convert_inputs(body.graph.output_node(), False)
    for inner in body.children():
        if isinstance(inner, GraphModule):
            _assign_in_body(inner, fake_mode)


class _Layouts:
    """Which nodes are channels-last, and the conversions made so far."""

    def __init__(self, graph: Graph, fake_mode: FakeTensorMode, default_only: bool = False):
        self._graph = graph
        self._fake_mode = fake_mode
        self._default_only = default_only  # placeholders are in the default order, whatever their examples were
        self._channels_last: set[Node] = set()
        self._converted: dict[tuple[Node, bool], Node] = {}
        self._vals: dict[Any, FakeTensor] = {}

    def assign(self, node: Node) -> None:
        """Decide `node`'s layout from those of its inputs, which are decided already."""
        if node.op == "placeholder":
            self._set(node, not self._default_only and is_channels_last(node.meta.get("val")))
        elif node.op != "call_function":
            return
        elif isinstance(node.target, OpOverload):
            wanted = self._wanted(node)
            self.convert_inputs(node, wanted)
            if node.target in _CONVERTING and self._changes_nothing(node, wanted):
                self._replace(node, node.args[0])
            else:
                self._set(node, wanted)
        elif node.target is operator.getitem:
            self._assign_item(node, node.args[0])
        elif isinstance(node.target, HigherOrderOperator) and not is_delegate_call(node):
            self.convert_inputs(node, False)
            self._set(node, False)

    def _assign_item(self, node: Node, source: Node) -> None:
        # A delegate gives what its own program said that it gives.
        from_delegate = is_delegate_call(source) and is_channels_last(node.meta["val"])
        self._set(node, from_delegate or source in self._channels_last)

    def _wanted(self, node: Node) -> bool:
        memory_format = node.kwargs.get("memory_format")
        if node.target in _CONVERTING and memory_format in _FORMATS:
            return _FORMATS[memory_format]
        inputs = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
        if node.target not in _FOLLOWING or not any(n in self._channels_last for n in inputs):
            return False
        # Kernels that broadcast take sizes for those of the default order.
        sizes = {_expressions(n.meta["val"].shape) for n in inputs}
        return node.target is aten.convolution.default or len(sizes) == 1

    def convert_inputs(self, node: Node, channels_last: bool) -> None:
        """Bring each input of a rank that has two orders into the one asked for."""
        if node.target in _CONVERTING:
            return
        for source in node.all_input_nodes:
            val = source.meta.get("val")
            other = (source in self._channels_last) != channels_last
            if other and isinstance(val, torch.Tensor) and val.dim() in (4, 5):
                node.replace_input_with(source, self._conversion(source, channels_last, node))

    def convert_results(self, output: Node, written: Mapping[int, str]) -> None:
        """Bring each result that is written to a placeholder into its layout."""
        placeholders = {node.name: node for node in self._graph.find_nodes(op="placeholder")}
        results = list(output.args[0])
        for position, name in written.items():
            result, channels_last = results[position], placeholders[name] in self._channels_last
            if result.meta["val"].dim() in (4, 5) and (result in self._channels_last) != channels_last:
                results[position] = self._conversion(result, channels_last, output)
        output.args = (tuple(results),)

    def _conversion(self, source: Node, channels_last: bool, before: Node) -> Node:
        key = (source, channels_last)
        if key not in self._converted:
            rank = source.meta["val"].dim()
            last = torch.channels_last if rank == 4 else torch.channels_last_3d
            memory_format = last if channels_last else torch.contiguous_format
            with self._graph.inserting_before(before):
                node = self._graph.call_function(aten.clone.default, (source,), {"memory_format": memory_format})
            node.meta.update(before.meta, val=source.meta["val"])
            self._set(node, channels_last)
            self._converted[key] = node
        return self._converted[key]

    def _changes_nothing(self, node: Node, wanted: bool) -> bool:
        source = node.args[0]
        same_dtype = node.meta["val"].dtype == source.meta["val"].dtype
        return same_dtype and (source in self._channels_last) == wanted

    def _replace(self, node: Node, source: Node) -> None:
        node.replace_all_uses_with(source)
        self._graph.erase_node(node)

    def _set(self, node: Node, channels_last: bool) -> None:
        if channels_last:
            self._channels_last.add(node)
        if "val" in node.meta:
            node.meta["val"] = tree_map(lambda v: self._val(v, channels_last), node.meta["val"])

    def _val(self, val: Any, channels_last: bool) -> Any:
        if not isinstance(val, FakeTensor):
            return val
        strides = dense_strides(val.shape, channels_last and val.dim() in (4, 5))
        if _expressions(strides) == _expressions(val.stride()) and val.storage_offset() == 0:
            return val
        key = (_expressions(val.shape), _expressions(strides), val.dtype)
        if key not in self._vals:
            with self._fake_mode:
                self._vals[key] = torch.empty_strided(val.shape, strides, dtype=val.dtype, device=val.device)
        return self._vals[key]


def dense_strides(sizes: Any, channels_last: bool) -> tuple[Any, ...]:
    """Strides in elements of a dense tensor of these sizes; `channels_last` moves dimension 1 innermost."""
    order = list(range(len(sizes)))
    if channels_last:
        order = [0, *order[2:], 1]
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dimension in reversed(order):
        strides[dimension] = step
        size = sizes[dimension]
        step = step * size if not isinstance(size, int) or size > 1 else step
    return tuple(strides)


def is_channels_last(val: Any) -> bool:
    """Whether a tensor is dense with dimension 1 innermost, and not in the default order as well."""
    if not isinstance(val, torch.Tensor) or val.dim() not in (4, 5):
        return False
    sizes = val.shape
    moved = [s for s in (sizes[1], *sizes[2:]) if not (isinstance(s, int) and s == 1)]
    ambiguous = (isinstance(sizes[1], int) and sizes[1] == 1) or len(moved) < 2
    return not ambiguous and _expressions(val.stride())[1:] == _expressions(dense_strides(sizes, True))[1:]


def _expressions(sizes: Any) -> tuple[Any, ...]:
    return tuple(s if isinstance(s, int) else s.node.expr for s in sizes)
