"""Partitions cut out of a program: each becomes a program of its own, and one call in what remains.

Nodes and their metadata are copied, nothing is traced again, and node names are kept: the program
that remains is built anew in an order in which every partition is a single step.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.utils import _pytree as pytree

from ..errors import LoweringError
from .backend import DelegationSpec
from .extract import Extractor
from .graph_copy import attribute_of, copy_node, copy_spec, new_graph_module, rebuild, untagged
from .lowered_module import LoweredBackendModule, executorch_call_delegate
from .tags import Ownership, Partition, find_ownership, find_partitions


def cut_partitions(
    tagged: ExportedProgram, specs: Mapping[str, DelegationSpec], *, data: ExportedProgram
) -> tuple[ExportedProgram, list[LoweredBackendModule]]:
    """The program with a call in place of each tagged partition, and the delegates called, not yet compiled.

    Tags in the bodies of cond, while_loop, map and scan make partitions there; these own no
    constants. The graph is that of `tagged`, state and constants are those of `data`. Both are
    left as they are; tensors are shared.

    Raises:
        LoweringError: tags that cannot be followed (see tags.py), or partitions that need each other's outputs.
    """
    partitions = find_partitions(tagged.graph, specs)
    ownership = find_ownership(tagged, partitions)
    cutter = _Cutter(tagged, data, specs, ownership)
    graph, attributes = cutter.cut(tagged.graph_module, partitions, ownership)
    return _remaining_program(tagged, data, graph, attributes, ownership), cutter.delegates


class _Cutter:
    """What the graphs of one program share while it is cut: debug handles, and the delegates so far."""

    def __init__(
        self,
        program: ExportedProgram,
        data: ExportedProgram,
        specs: Mapping[str, DelegationSpec],
        ownership: Ownership,
    ):
        self.specs = specs
        self.extract = Extractor(program, data, ownership)
        self.delegates: list[LoweredBackendModule] = []
        self.debug_handles = itertools.count(1 + _largest_debug_handle(program.graph_module))

    def cut(
        self, source: torch.fx.GraphModule, partitions: Sequence[Partition], ownership: Ownership
    ) -> tuple[torch.fx.Graph, dict[str, Any]]:
        """What remains of a graph, and the attributes that it refers to."""
        graph, attributes = torch.fx.Graph(), {}
        nodes: dict[torch.fx.Node, torch.fx.Node] = {}  # of the source → of the new graph
        position = {node: index for index, node in enumerate(source.graph.nodes)}
        tags = {node: partition.tag for partition in partitions for node in partition.nodes}
        free_names = _free_module_names(source)
        result_nodes = set(_nodes_in(_kept_results(source.graph.output_node(), ownership)))
        for step in _order(source.graph, partitions):
            if isinstance(step, Partition):
                outputs = [node for node in step.nodes if node in result_nodes or _leaves(node, tags)]
                original, inputs = self.extract(source, step, outputs, position)
                delegate = LoweredBackendModule(step.spec.backend_id, original, step.spec.compile_specs)
                self.delegates.append(delegate)
                name = next(free_names)
                attributes[name] = delegate
                call = self._call(graph, name, [nodes[node] for node in inputs], outputs)
                for index, node in enumerate(outputs):
                    nodes[node] = graph.create_node("call_function", operator.getitem, (call, index), name=node.name)
                    nodes[node].meta = untagged(node.meta)
            elif step.op == "output":
                results = _kept_results(step, ownership)
                graph.output(torch.fx.node.map_arg(results, nodes.__getitem__)).meta = untagged(step.meta)
            elif step not in ownership.inputs and not (step.op == "get_attr" and step.users.keys() <= tags.keys()):
                if step.op == "get_attr":
                    attributes[step.target] = self._cut_attribute(source, step.target)
                nodes[step] = copy_node(graph, step, nodes)
                nodes[step].meta = untagged(step.meta)
        return graph, attributes

    def _cut_attribute(self, source: torch.fx.GraphModule, target: str) -> Any:
        attribute = attribute_of(source, target)
        if not isinstance(attribute, torch.fx.GraphModule):
            return attribute
        partitions = find_partitions(attribute.graph, self.specs)
        graph, attributes = self.cut(attribute, partitions, Ownership())
        return new_graph_module(attribute, attributes, graph)

    def _call(
        self, graph: torch.fx.Graph, name: str, inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]
    ) -> torch.fx.Node:
        attribute = graph.create_node("get_attr", name, name=name)
        call = graph.call_function(executorch_call_delegate, (attribute, *inputs))
        call.meta["val"] = tuple(node.meta["val"] for node in outputs)
        call.meta["debug_handle"] = next(self.debug_handles)
        return call


def _order(graph: torch.fx.Graph, partitions: Sequence[Partition]) -> Iterator[torch.fx.Node | Partition]:
    """The graph's nodes with each partition as one step, every step after all that it needs.

    Among the steps that are ready, the one whose first node comes first goes next.
    """
    nodes = list(graph.nodes)
    step_of = {node: index for index, node in enumerate(nodes)}  # a step is known by its first node's index
    steps: dict[int, torch.fx.Node | Partition] = dict(enumerate(nodes))
    for partition in partitions:
        first = step_of[partition.nodes[0]]
        for node in partition.nodes:
            steps.pop(step_of[node])
            step_of[node] = first
        steps[first] = partition
    waits_for = dict.fromkeys(steps, 0)
    for node in nodes:
        for user in node.users:
            waits_for[step_of[user]] += step_of[user] != step_of[node]
    ready = [step for step, count in waits_for.items() if count == 0]
    heapq.heapify(ready)
    while ready:
        index = heapq.heappop(ready)
        step = steps.pop(index)
        yield step
        for node in step.nodes if isinstance(step, Partition) else (step,):
            for user in node.users:
                if step_of[user] != index:
                    waits_for[step_of[user]] -= 1
                    if waits_for[step_of[user]] == 0:
                        heapq.heappush(ready, step_of[user])
    if steps:
        raise _cycle(steps, step_of)


def _cycle(steps: Mapping[int, torch.fx.Node | Partition], step_of: Mapping[torch.fx.Node, int]) -> LoweringError:
    """The error for steps that wait for each other: each of them needs another of them."""
    path, seen = [next(iter(steps))], {}
    while path[-1] not in seen:
        seen[path[-1]] = len(path) - 1
        step = steps[path[-1]]
        members = step.nodes if isinstance(step, Partition) else (step,)
        needed = (step_of[node] for member in members for node in member.all_input_nodes)
        path.append(next(index for index in needed if index in steps and index != path[-1]))
    cycle = [steps[index] for index in reversed(path[seen[path[-1]] :])]
    names = [f"partition {step.tag!r}" if isinstance(step, Partition) else step.name for step in cycle]
    partition = next(step for step in cycle if isinstance(step, Partition))
    return LoweringError(
        f"partition {partition.tag!r} needs its own output: {' -> '.join(names)}",
        node=partition.nodes[0],
        remedies=[
            "group nodes with partitioning.group_supported, which makes no such cycles",
            "give the nodes before and after the way outside different tags",
        ],
    )


def _leaves(node: torch.fx.Node, tags: Mapping[torch.fx.Node, str]) -> bool:
    """Whether a node outside of a delegated node's partition, the graph's output aside, uses its value."""
    return any(user.op != "output" and tags.get(user) != tags[node] for user in node.users)


def _kept_results(output: torch.fx.Node, ownership: Ownership) -> Any:
    """What a graph still returns: all but the new values of state that partitions own."""
    if not ownership.mutations:
        return output.args[0]
    return tuple(value for index, value in enumerate(output.args[0]) if index not in ownership.mutations)


def _nodes_in(value: Any) -> list[torch.fx.Node]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.fx.Node)]


def _remaining_program(
    program: ExportedProgram,
    data: ExportedProgram,
    graph: torch.fx.Graph,
    attributes: Mapping[str, Any],
    ownership: Ownership,
) -> ExportedProgram:
    """The program that remains: without the inputs that partitions own, their data, and their mutations."""
    signature = program.graph_signature
    gone = {node.name for node in ownership.inputs}
    input_specs = [spec for spec in signature.input_specs if getattr(spec.arg, "name", None) not in gone]
    outputs = [spec for index, spec in enumerate(signature.output_specs) if index not in ownership.mutations]
    results = graph.output_node().args[0]
    output_specs = [copy_spec(spec, getattr(result, "name", None)) for spec, result in zip(outputs, results)]
    left = {spec.target for spec in signature.input_specs} - {spec.target for spec in input_specs}
    return rebuild(
        program, attributes, graph, ExportGraphSignature(input_specs, output_specs),
        state_dict={name: tensor for name, tensor in data.state_dict.items() if name not in left},
        constants={name: value for name, value in data.constants.items() if name not in left},
    )  # fmt: skip


def _free_module_names(graph_module: torch.fx.GraphModule) -> Iterator[str]:
    """lowered_module_0, lowered_module_1, … without the names that are taken."""
    return (name for name in (f"lowered_module_{n}" for n in itertools.count()) if not hasattr(graph_module, name))


def _largest_debug_handle(graph_module: torch.fx.GraphModule) -> int:
    graphs = [module.graph for module in graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return max((node.meta.get("debug_handle", 0) for graph in graphs for node in graph.nodes), default=0)
