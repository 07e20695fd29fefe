"""A partition for every operator: slow, and how the operator that is wrong is found."""

from __future__ import annotations

import operator

from rules_executorch.lowering.delegation.backend import PartitionResult
from rules_executorch.lowering.delegation.graph_copy import TAG
from rules_executorch.lowering.delegation.partitioning import graph_modules, tag_constant_data
from torch.fx import Node


def separate(result: PartitionResult) -> PartitionResult:
    """The same nodes, each in a partition of its own; but quantization of operands is part of what uses them."""
    tags = {}
    for graph_module in graph_modules(result.tagged_exported_program.graph_module):
        home: dict[Node, str] = {}
        for node in reversed(graph_module.graph.nodes):
            old = node.meta.pop(TAG, None)
            if old is None or node.op != "call_function":
                continue
            users = [home[user] for user in node.users if user in home]
            home[node] = users[0] if users and _belongs_to_user(node) else f"{old}_{node.name}"
            tags[home[node]] = result.partition_tags[old]
        for node, tag in home.items():
            node.meta[TAG] = tag
    tag_constant_data(result.tagged_exported_program, share=True)
    return PartitionResult(result.tagged_exported_program, tags)


def _belongs_to_user(node: Node) -> bool:
    quantizes = getattr(node.target, "namespace", "") in ("quantized_decomposed", "torchao")
    return quantizes or node.target is operator.getitem
