"""Grouping without cycles, and tags for constants and state."""

from __future__ import annotations

import time

import torch
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.lowering.delegation.backend import DelegationSpec
from rules_executorch.lowering.delegation.partitioning import (
    Companion,
    group_supported,
    partition_supported,
    tag_constant_data,
)
from support.delegation import export

X = torch.ones(2, 3)
SPEC = DelegationSpec("Recorder")


def groups_of(
    edges: list[list[int]], supported: list[bool], belonging: dict[int, Companion] | None = None
) -> list[set[int]]:
    """The groups of a graph whose node i reads the nodes edges[i] (of smaller number), or the input."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    nodes: list[torch.fx.Node] = []
    for inputs in edges:
        nodes.append(graph.call_function(torch.cat, ([nodes[i] for i in inputs] or [x],)))
    graph.output(tuple(nodes))
    number = {node: index for index, node in enumerate(nodes)}
    groups = group_supported(
        graph, lambda node: supported[number[node]], belongs=lambda node: (belonging or {}).get(number[node])
    )
    return [{number[n] for n in group} for group in groups]


def test_a_chain_is_one_group() -> None:
    assert groups_of([[], [0], [1]], [True] * 3) == [{0, 1, 2}]


def test_a_way_through_an_unsupported_node_splits() -> None:
    assert groups_of([[], [0], [0, 1]], [True, False, True]) in ([{0}, {2}],)


def test_a_node_waits_for_the_group_that_needs_it() -> None:
    # 1 could be computed before 0, but is used only with 2, which must come after.
    assert groups_of([[], [], [0], [2, 1], [3]], [False, True, False, True, True]) == [{1, 3, 4}]


# Node 1 reads node 0, and is read by node 3 with what an unsupported node 2 makes of 0. 3 has a user, 4.
SPLIT = [[], [0], [0], [1, 2], [3]]


def test_a_node_stays_with_what_it_reads() -> None:
    assert groups_of(SPLIT, [True, True, False, True, True]) == [{0, 1}, {3, 4}]


def test_a_node_that_belongs_with_its_users_goes_to_the_first() -> None:
    assert groups_of(SPLIT, [True, True, False, True, True], {1: Companion.USER}) == [{0}, {1, 3, 4}]


def test_a_chain_that_belongs_with_its_user_is_not_torn() -> None:
    edges = [[], [0], [1], [0], [2, 3]]
    both = {1: Companion.USER, 2: Companion.USER}
    assert groups_of(edges, [True, True, True, False, True], both) == [{0}, {1, 2, 4}]


def test_a_node_that_belongs_with_what_it_reads_stays_there_however_many_read_it() -> None:
    edges = [[], [0], [0], [1, 2], [1, 2]]
    supported = [True, True, False, True, True]
    assert groups_of(edges, supported) == [{0}, {1, 3, 4}]
    assert groups_of(edges, supported, {1: Companion.OPERAND}) == [{0, 1}, {3, 4}]


def test_where_nothing_that_it_reads_is_taken_a_node_goes_with_its_users() -> None:
    taken = [False, True, False, True, True]
    assert groups_of([[], [], [0], [1, 2], [3]], taken, {1: Companion.OPERAND}) == [{1, 3, 4}]


def test_nodes_that_read_one_value_are_one_group() -> None:
    # As query, key and value do.
    assert groups_of([[], [0], [0], [0]], [False, True, True, True]) == [{1, 2, 3}]


def test_unrelated_nodes_stay_apart() -> None:
    graph = torch.fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.output((graph.call_function(torch.sin, (a,)), graph.call_function(torch.cos, (b,))))
    assert len(group_supported(graph, lambda node: True)) == 2


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    size = draw(st.integers(1, 25))
    edges = [draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [] for i in range(size)]
    return edges, draw(st.lists(st.booleans(), min_size=size, max_size=size))


@given(graphs(), st.dictionaries(st.integers(0, 24), st.sampled_from(Companion)))
def test_no_group_needs_its_own_output_and_nothing_is_left_out(
    graph: tuple[list[list[int]], list[bool]], belonging: dict[int, Companion]
) -> None:
    edges, supported = graph
    groups = groups_of(edges, supported, belonging)
    assert sorted(node for group in groups for node in group) == [i for i, ok in enumerate(supported) if ok]
    group_of = {node: number for number, group in enumerate(groups) for node in group}
    steps = {node: ("group", group_of[node]) if node in group_of else ("node", node) for node in range(len(edges))}
    needs: dict[object, set[object]] = {step: set() for step in steps.values()}
    for node, inputs in enumerate(edges):
        needs[steps[node]] |= {steps[i] for i in inputs} - {steps[node]}
    while needs:  # peel off what needs nothing: a cycle would remain
        ready = {step for step, needed in needs.items() if not needed}
        assert ready
        needs = {step: needed - ready for step, needed in needs.items() if step not in ready}


@given(graphs())
def test_all_supported_is_few_groups(graph: tuple[list[list[int]], list[bool]]) -> None:
    edges, _ = graph
    assert len(groups_of(edges, [True] * len(edges))) == 1  # all read the input, or what does


def test_groups_that_are_not_worth_it_are_left() -> None:
    program = export(Simple(), X)
    result = partition_supported(program, lambda node: True, SPEC, worth=lambda group: len(group) > 9)
    assert result.partition_tags == {}
    assert not any("delegation_tag" in node.meta for node in program.graph.nodes)


class Simple(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.shared, self.unused = (torch.nn.Parameter(torch.ones(3)) for _ in range(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.sin(x * self.used * self.shared) + self.shared


def test_constants_go_with_the_partitions_that_alone_use_them() -> None:
    program = export(Simple(), X)
    for node in program.graph.nodes:
        if node.name.startswith("mul"):
            node.meta["delegation_tag"] = "t"
    tag_constant_data(program)
    tagged = {node.name for node in program.graph.nodes if node.op == "placeholder" and "delegation_tag" in node.meta}
    assert tagged == {"p_used"}


def test_grouping_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        start = time.process_time()
        groups_of([[max(i - 1, 0), i // 2] if i else [] for i in range(size)], [i % 3 > 0 for i in range(size)])
        return time.process_time() - start

    # Quadratic growth would be 64 times; caches and a busy machine make linear growth more than 8.
    small = min(seconds(2000) for _ in range(3))
    assert min(seconds(16000) for _ in range(2)) < small * 8 * 5
