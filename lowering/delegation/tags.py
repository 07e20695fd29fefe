"""What a partitioner's tags say of a graph: its partitions, and the constants and state that each owns."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch.fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from ..errors import LoweringError
from .backend import DelegationSpec
from .graph_copy import TAG
from .lowered_module import STATE_MUTATIONS, executorch_call_delegate

OWNABLE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)

# node.meta's key on a tagged constant that nodes outside of all partitions use too: both have it.
SHARED = "delegation_shared"


@dataclass(frozen=True)
class Partition:
    """Nodes of one graph that go to a backend together, in graph order."""

    tag: str
    spec: DelegationSpec
    nodes: tuple[torch.fx.Node, ...]


@dataclass(frozen=True)
class Ownership:
    """Which lifted inputs of a program belong to partitions and leave the program.

    `inputs` are placeholders all of whose users are delegated. `shared` are constants that partitions
    have for themselves and the program keeps as well. `mutations` are indices of the program's
    outputs, each the new value of a buffer that a partition owns.
    """

    inputs: frozenset[torch.fx.Node] = frozenset()
    shared: frozenset[torch.fx.Node] = frozenset()
    mutations: Mapping[int, str] = field(default_factory=dict)


def find_partitions(graph: torch.fx.Graph, specs: Mapping[str, DelegationSpec]) -> list[Partition]:
    """The partitions of a graph, by first node. Nodes in the bodies of its control flow are not looked at.

    `getitem` goes where the node goes whose output it takes, and `get_attr` to all its users,
    whatever their own tags.

    Raises:
        LoweringError: a tag without a spec, on the output, or on a call that is delegated already.
    """
    nodes: dict[str, list[torch.fx.Node]] = {}
    tag_of: dict[torch.fx.Node, str | None] = {}
    for node in graph.nodes:
        tag = node.meta.get(TAG)
        if tag is not None and tag not in specs:
            known = ", ".join(sorted(specs)) or "none"
            raise LoweringError(f"tag {tag!r} has no DelegationSpec in partition_tags (there are: {known})", node=node)
        if node.op == "output" and tag is not None:
            raise LoweringError(f"the output of the graph cannot be delegated (tag {tag!r})", node=node)
        if node.op != "call_function":
            continue
        if node.target is operator.getitem:
            tag = tag_of.get(node.args[0])
        elif node.target is executorch_call_delegate and tag is not None:
            raise LoweringError(f"this call is delegated already (tag {tag!r})", node=node)
        tag_of[node] = tag
        if tag is not None:
            nodes.setdefault(tag, []).append(node)
    return [Partition(tag, specs[tag], tuple(members)) for tag, members in nodes.items()]


def find_ownership(program: ExportedProgram, partitions: list[Partition]) -> Ownership:
    """What tagged placeholders mean for the program's parameters, buffers and constants.

    A tagged constant belongs to every partition that uses it (they share its tensor), and to the
    program as well if it is marked SHARED and used there. A tagged buffer that the program mutates
    belongs to one partition, which also computes its new value.

    Raises:
        LoweringError: a tagged user input; a constant with users that are not delegated, or with
            users in several partitions where node.meta["no_copy"] forbids that; mutated state
            that another partition, or no partition, reads or computes.
    """
    tag_of = {node: partition.tag for partition in partitions for node in partition.nodes}
    signature = program.graph_signature
    new_values = _new_values(program)
    owned: set[torch.fx.Node] = set()
    shared: set[torch.fx.Node] = set()
    mutations: dict[int, str] = {}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, signature.input_specs):
        if TAG not in node.meta:
            continue
        if spec.kind not in OWNABLE:
            raise LoweringError(
                f"an input of the method cannot belong to a partition (tag {node.meta[TAG]!r})", node=node,
                remedies=["tag only parameters, buffers and constants (see tag_constant_data)"],
            )  # fmt: skip
        if not node.users:
            continue
        tags = {tag_of.get(user) for user in node.users if user.op != "output"}
        # The output's use of a buffer's own unchanged value is not a mutation by anyone.
        if any(user.op == "output" for user in node.users):
            tags.add(None)
        if None in tags and SHARED in node.meta and spec.target not in new_values:
            shared.add(node)
            continue
        _check_users(node, spec.target, tags)
        if spec.target in new_values:
            index, value = new_values[spec.target]
            _check_state(node, spec.target, tags, value, tag_of)
            mutations[index] = next(iter(tags))  # type: ignore[assignment]
        owned.add(node)
    return Ownership(frozenset(owned), frozenset(shared), mutations)


def _new_values(program: ExportedProgram) -> dict[str, tuple[int, torch.fx.Node]]:
    """Mutated state by name: the index of the output that is its new value, and that value's node."""
    outputs = program.graph.output_node().args[0]
    return {
        spec.target: (index, outputs[index])
        for index, spec in enumerate(program.graph_signature.output_specs)
        if spec.kind in STATE_MUTATIONS
    }


def _check_users(node: torch.fx.Node, name: str, tags: set[str | None]) -> None:
    if None in tags:
        strangers = [user.name for user in node.users if TAG not in user.meta]
        raise LoweringError(
            f"{name!r} is tagged {node.meta[TAG]!r}, but used outside of every partition, by {', '.join(strangers)}",
            node=node,
            remedies=["do not tag it: it is then passed to the partition as an input", "tag its other users too"],
        )
    if len(tags) > 1 and node.meta.get("no_copy"):
        raise LoweringError(
            f"{name!r} must not be copied (no_copy), but several partitions use it: "
            f"{', '.join(sorted(map(str, tags)))}",
            node=node,
            remedies=["do not tag it: it is then passed to the partitions as an input"],
        )


def _check_state(
    node: torch.fx.Node, name: str, tags: set[str | None], value: torch.fx.Node, tag_of: Mapping[torch.fx.Node, str]
) -> None:
    places = tags | {tag_of.get(value)}
    if len(places) > 1:
        shown = ", ".join(sorted(tag or "none" for tag in places))
        raise LoweringError(
            f"mutated buffer {name!r} is tagged, but its uses and its new value ({value.name}) "
            f"are not in one partition (tags: {shown})",
            node=node,
            remedies=["do not tag it: it then stays in the program, and the partition takes and returns its value"],
        )
