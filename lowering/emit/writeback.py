"""What a graph changes: buffers that a method keeps, inputs that it was given, what a loop carries.

An edge program is functional: it returns the new value of what it mutates. Where the kernel that
makes the new value can write straight to the old one's place it does; else the value is copied
there when all else is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves

from .emitter import Emitter
from .inplace import overwritable_operands
from .shapes import dim_order, same_shape
from .updates import updates_operand
from .values import TensorValue
from .views import is_view


@dataclass(frozen=True)
class Mutation:
    """`placeholder` gets the value of `value` when the graph has run: a method's, or a round of a loop's."""

    placeholder: Node
    value: Node


def write_in_place(emitter: Emitter, graph: Graph, mutations: Sequence[Mutation]) -> list[Mutation]:
    """Let kernels write new values straight to their place where that is safe; returns the other mutations.

    It is safe if nobody reads the old value, or a view of it, after the kernel, and the kernel itself
    reads it only element by element.
    """
    if not mutations:
        return []
    position = {node: index for index, node in enumerate(graph.nodes)}
    last_read = _last_reads(graph, position)
    remaining = []
    for mutation in mutations:
        old, steps = mutation.placeholder, _steps(mutation)

        def free(operand: Node, step: Node) -> bool:
            """Whether the place that `operand` lies in is `step`'s to write to."""
            last = last_read[operand]
            return last < position[step] or (last == position[step] and _may_overwrite(step, operand))

        possible = old in emitter.env and not any(step in emitter.targets for step in steps)
        if possible and all(_can_write_to(step, old) for step in steps) and all(map(free, [old, *steps], steps)):
            emitter.targets.update(dict.fromkeys(steps, emitter.env[old]))
        else:
            remaining.append(mutation)
    return remaining


def _steps(mutation: Mutation) -> list[Node]:
    """The operators that make the new value of the old one, each changing a part; the last one alone in other cases."""
    steps = [mutation.value]
    while updates_operand(steps[-1]):
        operand = steps[-1].args[0]
        if operand is mutation.placeholder:
            return steps[::-1]
        steps.append(operand)
    return [mutation.value]


def _can_write_to(kernel: Node, old: Node) -> bool:
    """Whether `kernel` makes a tensor such as `old`'s by writing to a place that it is given."""
    return (
        isinstance(kernel.target, torch._ops.OpOverload)
        and not is_view(kernel)
        and isinstance(kernel.meta.get("val"), torch.Tensor)
        and _alike(old.meta["val"], kernel.meta["val"])
    )


def _may_overwrite(kernel: Node, operand: Node) -> bool:
    """Whether `kernel` can write its result over `operand`, which it reads itself and not through a view."""
    if any(_viewed(argument) is operand for argument in kernel.all_input_nodes if is_view(argument)):
        return False
    if updates_operand(kernel):
        return kernel.args[0] is operand and operand not in tree_leaves((kernel.args[1:], kernel.kwargs))
    return operand in overwritable_operands(kernel)


def _viewed(node: Node) -> Node:
    """What `node` is a view of, through any number of views."""
    while is_view(node):
        node = node.args[0]
    return node


def _last_reads(graph: Graph, position: dict[Node, int]) -> dict[Node, int]:
    """Where each node's value is read last, as it is or through views of it."""
    last: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        reads = [max(position[user], last[user]) if is_view(user) else position[user] for user in node.users]
        last[node] = max(reads, default=-1)
    return last


def _alike(old: torch.Tensor, new: torch.Tensor) -> bool:
    return old.dtype == new.dtype and same_shape(old.shape, new.shape) and dim_order(old) == dim_order(new)


def write_back(emitter: Emitter, mutations: Sequence[Mutation], outputs: Sequence[int]) -> list[int]:
    """Copy new values to where they belong, and return the method's outputs, safe from these copies."""
    places = [emitter.env.get(mutation.placeholder) for mutation in mutations]
    pending = [(emitter.value(m.value), place) for m, place in zip(mutations, places) if place is not None]
    storages = {id(emitter.values.tensor(place).storage) for _, place in pending}
    # Whatever still shows an old value is copied before any is overwritten.
    saved: dict[int, int] = {}
    for index in [value for value, _ in pending] + list(outputs):
        tensor = emitter.values.values[index]
        if index not in saved and isinstance(tensor, TensorValue) and id(tensor.storage) in storages:
            saved[index] = emitter.another(index)
            emitter.copy(index, saved[index])
    no = emitter.values.constant(False)
    for value, place in pending:
        emitter.code.kernel("aten::copy_", None, [place, saved.get(value, value), no, place])
    return [saved.get(output, output) for output in outputs]
