"""Branches and loops, as jumps in one flat list of instructions.

Each body is emitted in place, so that memory is planned over a single timeline. Branches write
their results straight into the values of the whole. Loops test before they run a round, and set
their counters when they begin, so that a run that failed half-way leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from ..format.schema import ELEMENT_SIZE
from .emitter import Emitter, Handler, body_outputs
from .kernels import result_owners
from .shapes import dim_order, nbytes
from .values import Place, TensorValue
from .views import is_view
from .writeback import Mutation, write_in_place

higher_order = torch.ops.higher_order


def _body(node: Node, argument: Any) -> GraphModule:
    body = torch.fx.graph_module._get_attr(node.graph.owning_module, argument.target)
    assert isinstance(body, GraphModule)
    return body


def _fourth(emitter: Emitter, node: Node) -> list[int]:
    """The values that a body is given beside those that its operator is about; torch may leave them out."""
    return [emitter.value(argument) for argument in (node.args[3] if len(node.args) > 3 else ())]


def emit_cond(emitter: Emitter, node: Node) -> tuple[int, ...]:
    """`cond(predicate, true_graph, false_graph, operands)`"""
    predicate, *graphs = node.args[:3]
    branches = [_body(node, graph) for graph in graphs]
    operands = _fourth(emitter, node)
    if isinstance(predicate, bool):  # known when the model was exported
        return tuple(emitter.body(branches[0 if predicate else 1], operands))
    results = _branch_results(emitter, node, branches)
    to_else = emitter.code.jump_false(emitter.value(predicate))
    _emit_branch(emitter, branches[0], operands, results)
    to_end = emitter.code.jump_false(emitter.values.constant(False))
    emitter.code.land(to_else)
    _emit_branch(emitter, branches[1], operands, results)
    emitter.code.land(to_end)
    return results


def _branch_results(emitter: Emitter, node: Node, branches: Sequence[GraphModule]) -> tuple[int, ...]:
    """The values that either branch writes; tensors are as large as the larger of the two."""
    owners = result_owners(node)
    results = []
    for index, value in enumerate(node.meta["val"]):
        result = emitter.result(value, owners.get(index, node))
        if isinstance(value, torch.Tensor):
            for branch in branches:
                output = body_outputs(branch)[index]
                if isinstance(output, Node):
                    _enlarge(emitter.values.tensor(result), emitter.describe(output.meta["val"], output))
        results.append(result)
    return tuple(results)


def _enlarge(tensor: TensorValue, other: TensorValue) -> None:
    tensor.dynamic |= other.dynamic or tensor.sizes != other.sizes
    tensor.sizes = tuple(map(max, tensor.sizes, other.sizes))
    tensor.storage.nbytes = nbytes(tensor.sizes, ELEMENT_SIZE[tensor.scalar_type])


def _emit_branch(emitter: Emitter, branch: GraphModule, operands: Sequence[int], results: Sequence[int]) -> None:
    outputs = body_outputs(branch)
    chosen = set()
    for output, result in zip(outputs, results):
        if output not in chosen and _can_write_to(emitter, output, result):
            emitter.targets[output] = result
            chosen.add(output)
    for value, result in zip(emitter.body(branch, operands), results):
        if value != result:
            emitter.copy(value, result)


def _can_write_to(emitter: Emitter, output: Any, result: int) -> bool:
    """Whether the kernel that makes a branch's output can write to the branch's result at once."""
    if not isinstance(output, Node) or output.op != "call_function":
        return False
    target = emitter.values.values[result]
    value = output.meta.get("val")
    if not isinstance(target, TensorValue) or not isinstance(value, torch.Tensor):
        return False
    return dim_order(value) == target.dim_order and emitter.describe(value, output).scalar_type == target.scalar_type


def emit_while_loop(emitter: Emitter, node: Node) -> tuple[int, ...]:
    """`while_loop(condition, body, carried, others)`: carried values live in places of their own."""
    condition, body = (_body(node, graph) for graph in node.args[:2])
    initial: Sequence[Any] = node.args[2]
    others = _fourth(emitter, node)
    carried = _carried(emitter, node, initial)
    start = emitter.code.position
    (go_on,) = emitter.body(condition, [*carried, *others])
    to_end = emitter.code.jump_false(go_on)
    _carry(emitter, _round(emitter, body, [*carried, *others], len(carried)), carried)
    _close_loop(emitter, start, to_end)
    return tuple(carried)


def _close_loop(emitter: Emitter, start: int, to_end: int) -> None:
    emitter.code.jump_false(emitter.values.constant(False), start)
    emitter.code.loops.append((start, emitter.code.position - 1))
    emitter.code.land(to_end)


def _carried(emitter: Emitter, node: Node, initial: Sequence[Any]) -> list[int]:
    """A place for each value that a loop carries from round to round, holding its initial value."""
    places = []
    for index, argument in enumerate(initial):
        source = emitter.value(argument)
        value = argument.meta["val"] if isinstance(argument, Node) else argument
        if _is_the_loops_own(emitter, argument, source):
            places.append(source)
            continue
        if isinstance(value, torch.Tensor):
            place = emitter.new_tensor(value, node)
        else:
            place = emitter.slot(node.meta["val"][index])
        emitter.copy(source, place)
        places.append(place)
    return places


def _is_the_loops_own(emitter: Emitter, argument: Any, value: int) -> bool:
    """Whether a tensor was made for a loop to begin with, and for nobody else: the loop may write over it."""
    if not isinstance(argument, Node) or not isinstance(argument.target, OpOverload) or is_view(argument):
        return False
    users = list(argument.users)
    if len(users) != 1 or sum(leaf is argument for leaf in tree_leaves(users[0].args)) != 1:
        return False
    tensor = emitter.values.values[value]
    return isinstance(tensor, TensorValue) and tensor.storage.place is Place.PLANNED and not tensor.rewired


def _round(emitter: Emitter, body: GraphModule, arguments: Sequence[int], carried: int) -> list[Any]:
    """Emit a loop's body; of what it carries, new values are written straight over old ones where that is safe."""
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    emitter.env.update(zip(placeholders, arguments))
    results = body_outputs(body)[:carried]
    pairs = zip(placeholders, results)
    changes = [Mutation(old, new) for old, new in pairs if isinstance(new, Node) and new is not old]
    write_in_place(emitter, body.graph, changes)
    return emitter.body(body, arguments)


def _carry(emitter: Emitter, results: Sequence[int], carried: Sequence[int]) -> None:
    """Hand a round's results to the next round, all at once: a result may be another's old value."""
    pending = []
    for result, place in zip(results, carried):
        if result == place:
            continue
        if _lies_in(emitter, result, carried):
            copied = emitter.another(result)
            emitter.copy(result, copied)
            result = copied
        pending.append((result, place))
    for result, place in pending:
        emitter.copy(result, place)


def _lies_in(emitter: Emitter, value: int, places: Sequence[int]) -> bool:
    if value in places:
        return True
    tensor = emitter.values.values[value]
    if not isinstance(tensor, TensorValue):
        return False
    others = (emitter.values.values[place] for place in places)
    return any(isinstance(other, TensorValue) and other.storage is tensor.storage for other in others)


def emit_map(emitter: Emitter, node: Node) -> tuple[int, ...]:
    """`map_impl(body, mapped, operands)`: the body for each index of the mapped tensors' first dimension."""
    body = _body(node, node.args[0])
    operands = [emitter.value(operand) for operand in node.args[2]]
    loop = _IndexLoop(emitter, node, node.args[1])
    stacked = loop.stacked(node.meta["val"], 0)
    loop.begin()
    results = emitter.body(body, [*loop.slices(body, 0), *operands])
    loop.stack(results, stacked)
    loop.end()
    return tuple(stacked)


def emit_scan(emitter: Emitter, node: Node) -> tuple[int, ...]:
    """`scan(body, initial, scanned, others)`: map with values carried from index to index."""
    body = _body(node, node.args[0])
    initial: Sequence[Any] = node.args[1]
    others = _fourth(emitter, node)
    loop = _IndexLoop(emitter, node, node.args[2])
    carried = _carried(emitter, node, initial)
    stacked = loop.stacked(node.meta["val"][len(initial) :], len(initial))
    loop.begin()
    results = _round(emitter, body, [*carried, *loop.slices(body, len(initial)), *others], len(initial))
    loop.stack(results[len(initial) :], stacked)
    _carry(emitter, results[: len(initial)], carried)
    loop.end()
    return (*carried, *stacked)


class _IndexLoop:
    """Counts over the first dimension of tensors; each round takes a slice of them and adds to results."""

    def __init__(self, emitter: Emitter, node: Node, tensors: Sequence[Node]):
        self._emitter = emitter
        self._node = node
        self._tensors = tensors
        self._counter = emitter.slot(0)
        self._zero, self._one = emitter.values.constant(0), emitter.values.constant(1)

    def stacked(self, values: Sequence[torch.Tensor], first_output: int) -> list[int]:
        """Tensors to which each round adds a slice. They begin empty and grow along the first dimension."""
        emitter = self._emitter
        owners = result_owners(self._node)
        results = []
        for index, value in enumerate(values, first_output):
            result = emitter.result(value, owners.get(index, self._node))
            tensor = emitter.values.tensor(result)
            tensor.dynamic = True
            sizes = [0, *tensor.sizes[1:]]
            empty = emitter.values.int_list([emitter.values.constant(size) for size in sizes])
            emitter.code.kernel("aten::full", "out", [empty, self._zero, result, result])
            results.append(result)
        return results

    def begin(self) -> None:
        emitter = self._emitter
        tensor = self._tensors[0]
        size = tensor.meta["val"].shape[0]
        if isinstance(size, int):
            count = emitter.values.constant(size)
        else:
            count = emitter.slot(size)
            emitter.code.kernel("aten::sym_size", "int", [emitter.value(tensor), self._zero, count])
        emitter.code.move(self._zero, self._counter)
        self._start = emitter.code.position
        go_on = emitter.slot(False)
        emitter.code.kernel("executorch_prim::lt", "Scalar", [self._counter, count, go_on])
        self._to_end = emitter.code.jump_false(go_on)

    def slices(self, body: GraphModule, first_input: int) -> list[int]:
        """This round's slice of each tensor, as the body's inputs from `first_input` expect them."""
        emitter = self._emitter
        placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
        slices = []
        for tensor, placeholder in zip(self._tensors, placeholders[first_input:]):
            result = emitter.new_tensor(placeholder.meta["val"], placeholder)
            args = [emitter.value(tensor), self._zero, self._counter, result, result]
            emitter.code.kernel("aten::select_copy", "int_out", args)
            slices.append(result)
        return slices

    def stack(self, results: Sequence[int], stacked: Sequence[int]) -> None:
        for result, whole in zip(results, stacked):
            self._emitter.code.kernel("executorch_prim::et_copy_index", "tensor", [whole, result, self._counter])

    def end(self) -> None:
        emitter = self._emitter
        emitter.code.kernel("executorch_prim::add", "Scalar", [self._counter, self._one, self._counter])
        _close_loop(emitter, self._start, self._to_end)


CONTROL_FLOW_HANDLERS: dict[Any, Handler] = {
    higher_order.cond: emit_cond,
    higher_order.while_loop: emit_while_loop,
    higher_order.map_impl: emit_map,
    higher_order.scan: emit_scan,
}
