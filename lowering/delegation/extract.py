"""A partition as a program of its own: its nodes, the constants and the state that it owns, its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ArgumentSpec,
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
from torch.utils import _pytree as pytree

from ..errors import LoweringError
from ..uncompiled import uncompiled_program
from .graph_copy import copy_attribute, copy_spec, untagged
from .tags import OWNABLE, Ownership, Partition

Node = torch.fx.Node

# What can cross a partition's border, and how a signature describes it. A bool is an int: it comes first.
_ARGUMENTS: tuple[tuple[tuple[type, ...], type], ...] = (
    ((torch.Tensor,), TensorArgument),
    ((torch.SymBool, bool), SymBoolArgument),
    ((torch.SymInt, int), SymIntArgument),
    ((torch.SymFloat, float), SymFloatArgument),
)


class Extractor:
    """Makes programs of the partitions of one program, whose signature is looked through once."""

    def __init__(self, program: ExportedProgram, data: ExportedProgram, ownership: Ownership):
        self.program = program
        self.data = data
        self.owned_inputs = ownership.inputs | ownership.shared
        self.lifted = {spec.arg.name: spec for spec in program.graph_signature.input_specs if spec.kind in OWNABLE}
        self.mutations: dict[str, list[int]] = {}
        for index, tag in ownership.mutations.items():
            self.mutations.setdefault(tag, []).append(index)

    def __call__(
        self,
        source: torch.fx.GraphModule,
        partition: Partition,
        outputs: Sequence[Node],
        position: Mapping[Node, int],
    ) -> tuple[ExportedProgram, list[Node]]:
        """A partition of `source` as a program, and the nodes of `source` that are its inputs, in order.

        Inputs are ordered as in `source` (`position`), after what the partition owns. Outputs are the new
        values of state, then `outputs`.
        """
        needed = {n for member in partition.nodes for n in member.all_input_nodes if n.op != "get_attr"}
        needed.difference_update(partition.nodes)
        ordered = sorted(needed, key=position.__getitem__)
        owned = [node for node in ordered if node in self.owned_inputs]
        inputs = [node for node in ordered if node not in self.owned_inputs]
        mutations = self.mutations.get(partition.tag, []) if owned else []
        results = source.graph.output_node().args[0] if mutations else ()
        new_values = [results[index] for index in mutations]

        graph, attributes, nodes = _copy_nodes(source, (*owned, *inputs), partition.nodes)
        graph.output(tuple(nodes[node] for node in (*new_values, *outputs)))
        input_specs = [copy_spec(self.lifted[node.name], nodes[node].name) for node in owned]
        output_specs = [
            copy_spec(self.program.graph_signature.output_specs[index], nodes[value].name)
            for index, value in zip(mutations, new_values)
        ]
        names = [spec.target for spec in input_specs]
        input_specs += [InputSpec(InputKind.USER_INPUT, _argument(n, nodes, partition), None) for n in inputs]
        output_specs += [OutputSpec(OutputKind.USER_OUTPUT, _argument(n, nodes, partition), None) for n in outputs]
        extracted = uncompiled_program(
            root=attributes,
            graph=graph,
            graph_signature=ExportGraphSignature(input_specs, output_specs),
            state_dict={name: self.data.state_dict[name] for name in names if name in self.data.state_dict},
            range_constraints=dict(self.program.range_constraints),
            module_call_graph=[_flat_call(len(inputs), len(outputs))],
            constants={name: self.data.constants[name] for name in names if name in self.data.constants},
            verifiers=self.program.verifiers,
        )
        return extracted, inputs


def _copy_nodes(
    source: torch.fx.GraphModule, placeholders: Iterable[Node], members: Iterable[Node]
) -> tuple[torch.fx.Graph, dict[str, Any], dict[Node, Node]]:
    """A graph of placeholders and copied nodes, the attributes that it refers to, and the copies by original."""
    graph = torch.fx.Graph()
    attributes: dict[str, Any] = {}
    nodes: dict[Node, Node] = {}
    for node in placeholders:
        nodes[node] = graph.placeholder(node.name)
        nodes[node].meta = untagged(node.meta)
    for node in members:
        for operand in node.all_input_nodes:
            if operand.op == "get_attr" and operand not in nodes:
                attributes[operand.target] = copy_attribute(source, operand.target)
                nodes[operand] = graph.node_copy(operand)
        nodes[node] = graph.node_copy(node, nodes.__getitem__)
        nodes[node].meta = untagged(node.meta)
    return graph, attributes, nodes


def _argument(node: Node, nodes: Mapping[Node, Node], partition: Partition) -> ArgumentSpec:
    for value_types, argument in _ARGUMENTS:
        if isinstance(node.meta["val"], value_types):
            return argument(name=nodes[node].name)
    raise LoweringError(
        f"only tensors and symbolic numbers can enter or leave a partition, not {type(node.meta['val']).__name__} "
        f"(partition {partition.tag!r})",
        node=node,
        remedies=["put the nodes that make and use this value into one partition, or into none"],
    )


def _flat_call(inputs: int, outputs: int) -> ModuleCallEntry:
    """The calling convention of a partition: its inputs by position, its outputs as a tuple."""
    in_spec = pytree.tree_structure((tuple(range(inputs)), {}))
    out_spec = pytree.tree_structure(tuple(range(outputs)))
    return ModuleCallEntry("", ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec))
