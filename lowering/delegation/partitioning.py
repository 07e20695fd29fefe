"""Help for authors of partitioners: from "which nodes can I take" to tags that to_backend accepts.

Most partitioners are one call of `partition_supported`. The others use its parts:
`group_supported` for groups without cycles, `tag_constant_data` and `tag_mutated_buffer` for
the constants and the state that go along.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import torch.fx
from torch.export import ExportedProgram

from .backend import DelegationSpec, Partitioner, PartitionResult
from .graph_copy import TAG, attribute_of
from .lowered_module import STATE_MUTATIONS, executorch_call_delegate
from .tags import OWNABLE, SHARED

Supports = Callable[[torch.fx.Node], bool]
Worth = Callable[[Sequence[torch.fx.Node]], bool]


class Companion(Enum):
    """What a node belongs with, if a border cannot but separate it from something: it is of little use alone."""

    OPERAND = "what it reads, such as a conversion of a result to fewer bits"
    USER = "what reads it, such as a conversion back"


Belongs = Callable[[torch.fx.Node], "Companion | None"]


def partition_supported(
    exported_program: ExportedProgram,
    supports: Supports,
    spec: DelegationSpec,
    *,
    worth: Worth | None = None,
    belongs: Belongs | None = None,
    own_mutated_buffers: bool = False,
    share_constants: bool = False,
) -> PartitionResult:
    """Tag all that `supports` accepts, in as few partitions as can be had without cycles.

    `worth` may refuse a group, for instance one whose transfer costs more than its computation
    saves; `belongs` says which nodes are not to be separated from others. `supports` is asked once
    for each call_function node except `getitem` and calls of delegates, also in the bodies of
    control flow. Constants go along with the groups that use them, and, with `own_mutated_buffers`, so does state. With `share_constants`, a partition has
    those too that are used outside as well; without, they are its inputs.
    """
    tags: dict[str, DelegationSpec] = {}
    for graph_module in graph_modules(exported_program.graph_module):
        for group in group_supported(graph_module.graph, supports, worth=worth, belongs=belongs):
            tag = f"{spec.backend_id}_{len(tags)}"
            tags[tag] = spec
            for node in group:
                node.meta[TAG] = tag
    tag_constant_data(exported_program, share=share_constants)
    if own_mutated_buffers:
        tag_mutated_buffer(exported_program)
    return PartitionResult(exported_program, tags)


def group_supported(
    graph: torch.fx.Graph, supports: Supports, *, worth: Worth | None = None, belongs: Belongs | None = None
) -> list[list[torch.fx.Node]]:
    """Disjoint groups of supported nodes, no group needing its own outputs. Linear in nodes and uses.

    Every node has a level, which grows by one from a supported node to an unsupported user. Nodes
    of one level can be computed together: what leaves the level never comes back to it. A node
    may wait for a later level if more of its neighbours are there; if it belongs with its users,
    it waits for the first of them. Within a level, nodes that share a value are one group.
    """
    taken = {node: _is_taken(node, supports) for node in graph.nodes if node.op == "call_function"}
    for node in taken:  # a getitem is part of what makes its tuple
        if node.target is operator.getitem:
            taken[node] = taken.get(node.args[0], False)
    level = _levels(taken, belongs or (lambda node: None))
    groups = _connected(taken, level)
    return [group for group in groups if worth is None or worth(group)]


def tag_constant_data(edge_program: ExportedProgram, *, share: bool = False) -> None:
    """Give unmutated parameters, buffers and constants to the partitions that use them.

    Only those that nothing else uses, unless they are to be shared with the rest of the program;
    of several partitions, the first gives its tag, and to_backend lets them share.
    """
    mutated = {s.target for s in edge_program.graph_signature.output_specs if s.kind in STATE_MUTATIONS}
    for node, spec in _lifted(edge_program):
        users = [user.meta.get(TAG) for user in node.users]
        tags = [tag for tag in users if tag is not None]
        if spec.target not in mutated and tags and (share or len(tags) == len(users)):
            node.meta[TAG] = min(tags)
            if share:
                node.meta[SHARED] = True


def tag_mutated_buffer(edge_program: ExportedProgram) -> None:
    """Give mutated buffers to the partition that alone reads them and computes their new value.

    The partition then keeps the state from call to call, on the device. Buffers for which there
    is no such partition stay with the program.
    """
    results = edge_program.graph.output_node().args[0]
    specs = edge_program.graph_signature.output_specs
    new_values = {spec.target: value for spec, value in zip(specs, results) if spec.kind in STATE_MUTATIONS}
    for node, spec in _lifted(edge_program):
        value = new_values.get(spec.target)
        if value is not None and value.op == "call_function":
            tags = {value.meta.get(TAG), *(user.meta.get(TAG) for user in node.users)}
            if len(tags) == 1 and None not in tags:
                node.meta[TAG] = tags.pop()


class WholeGraphPartitioner(Partitioner):
    """What a DelegationSpec means where a Partitioner is accepted: all of every method, state included.

    Where another partitioner has been before, it takes all that was left.
    """

    def __init__(self, spec: DelegationSpec):
        self.spec = spec

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        graph = exported_program.graph
        groups = [[node for node in graph.nodes if node.op == "call_function"]]
        if any(node.target is executorch_call_delegate for node in groups[0]):
            groups = group_supported(graph, lambda node: True)
        tags = {f"{self.spec.backend_id}_{index}": group for index, group in enumerate(groups) if group}
        for tag, group in tags.items():
            for node in group:
                node.meta[TAG] = tag
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, dict.fromkeys(tags, self.spec))


def graph_modules(graph_module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    """A graph, and the bodies of its control flow, however deep."""
    yield graph_module
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            attribute = attribute_of(graph_module, node.target)
            if isinstance(attribute, torch.fx.GraphModule):
                yield from graph_modules(attribute)


def _is_taken(node: torch.fx.Node, supports: Supports) -> bool:
    return node.target is not operator.getitem and node.target is not executorch_call_delegate and supports(node)


def _lifted(program: ExportedProgram) -> Iterator[tuple[torch.fx.Node, torch.export.graph_signature.InputSpec]]:
    """Placeholders of parameters, buffers and constants, with their specs."""
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    return ((n, s) for n, s in zip(placeholders, program.graph_signature.input_specs) if s.kind in OWNABLE)


def _levels(taken: dict[torch.fx.Node, bool], belongs: Belongs) -> dict[torch.fx.Node, int]:
    """Each node's level: as early as possible, then later where more of its neighbours are."""
    level: dict[torch.fx.Node, int] = {}
    for node, is_taken in taken.items():
        level[node] = max(
            (level[p] + (taken[p] and not is_taken) for p in node.all_input_nodes if p in level), default=0
        )
    for node in reversed(taken):
        users = [user for user in node.users if user in level]
        if not taken[node] or not users:
            continue
        companion = belongs(node)
        if companion is Companion.OPERAND and any(taken.get(p) for p in node.all_input_nodes):
            continue
        if companion is not None:
            if all(taken[user] for user in users):
                level[node] = min(level[user] for user in users)
            continue
        if node.target is operator.getitem or _has_getitem(users):
            continue
        latest = min(level[user] - (not taken[user]) for user in users)
        there = sum(taken[user] and level[user] == latest for user in users)
        here = sum(taken.get(p, False) and level[p] == level[node] for p in node.all_input_nodes)
        if latest > level[node] and there > here:
            level[node] = latest
    return level


def _has_getitem(users: Sequence[torch.fx.Node]) -> bool:
    return any(user.target is operator.getitem for user in users)


def _connected(taken: dict[torch.fx.Node, bool], level: dict[torch.fx.Node, int]) -> list[list[torch.fx.Node]]:
    """Taken nodes of one level that are linked by values, made by one of them or read by several."""
    parent: dict[object, object] = {}

    def root(key: object) -> object:
        while parent.setdefault(key, key) is not key:
            parent[key] = parent[parent[key]]  # halve the path, so that the next walk is short
            key = parent[key]
        return key

    for node, is_taken in taken.items():
        if is_taken:
            for p in node.all_input_nodes:
                joint = p if taken.get(p) and level[p] == level[node] else (p.name, level[node])
                if p.op != "get_attr":
                    parent[root(node)] = root(joint)
    groups: dict[object, list[torch.fx.Node]] = {}
    for node, is_taken in taken.items():
        if is_taken:
            groups.setdefault(root(node), []).append(node)
    return list(groups.values())
