"""What partitions compute of constants alone, such as a dequantized weight, each that uses it computes for itself.

So a value that several partitions need does not come from one of them at run time: to the others it
would be an activation, where their backend counts on a constant.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from .graph_copy import TAG
from .lowered_module import STATE_MUTATIONS


def copy_constant_work(tagged: ExportedProgram) -> None:
    """Copy each tagged node that depends on tagged constants alone into the other partitions that use it."""
    graph = tagged.graph
    for node in reversed(_constant_work(tagged)):  # users first, so that the operands of their copies are copied too
        copies: dict[str, Node] = {}
        for user in list(node.users):
            tag = user.meta.get(TAG)
            if user.op != "call_function" or tag in (None, node.meta[TAG]):
                continue
            if tag not in copies:
                with graph.inserting_after(node):
                    copies[tag] = graph.node_copy(node)
                copies[tag].meta[TAG] = tag
            user.replace_input_with(node, copies[tag])
        if copies and not node.users:
            graph.erase_node(node)


def _constant_work(tagged: ExportedProgram) -> list[Node]:
    signature = tagged.graph_signature
    mutated = {spec.target for spec in signature.output_specs if spec.kind in STATE_MUTATIONS}
    placeholders = zip(tagged.graph.find_nodes(op="placeholder"), signature.input_specs)
    constant = {node for node, spec in placeholders if TAG in node.meta and spec.target not in mutated}
    work: list[Node] = []
    for node in tagged.graph.nodes:
        if node.op == "call_function" and TAG in node.meta and isinstance(node.meta.get("val"), torch.Tensor):
            if node.all_input_nodes and constant.issuperset(node.all_input_nodes):
                constant.add(node)
                work.append(node)
    return work
