"""Depsets: order, uniqueness, and linear flattening of shared and deep structures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.builder.analysis.depset import Depset

# A random DAG: each node has direct items, and indices of earlier nodes below it.
dags = st.lists(
    st.tuples(st.lists(st.integers(0, 20), max_size=4), st.lists(st.integers(0, 100), max_size=4)), min_size=1
)


def build(dag: list[tuple[list[int], list[int]]]) -> list[Depset[int]]:
    nodes: list[Depset[int]] = []
    for direct, below in dag:
        nodes.append(Depset(direct, [nodes[index % len(nodes)] for index in below] if nodes else []))
    return nodes


def postorder(node: Depset[int]) -> list[int]:
    """The order as its definition says it, however slowly."""
    items: list[int] = []
    for below in node.transitive:
        items += postorder(below)
    items += node.direct
    return list(dict.fromkeys(items))


@given(dags.filter(lambda dag: len(dag) < 12))
def test_flattening_is_postorder_with_each_item_where_it_is_met_first(dag: list) -> None:
    for node in build(dag):
        assert node.to_list() == postorder(node)


@given(dags)
def test_what_is_below_comes_before_what_is_above_unless_it_is_both(dag: list) -> None:
    # Items that are unique to their node make the order one of nodes.
    unique = [([index], below) for index, (_, below) in enumerate(dag)]
    nodes = build(unique)
    position = {item: place for place, item in enumerate(nodes[-1].to_list())}
    for node in nodes:
        for below in node.transitive:
            if node.direct[0] in position:
                assert position[below.direct[0]] < position[node.direct[0]]


def test_a_ladder_of_shared_depsets_is_walked_once() -> None:
    node: Depset[int] = Depset([0])
    for item in range(1, 2000):
        node = Depset([item], [node, node, node])  # 3^2000 paths
    assert node.to_list() == list(range(2000))


def test_a_chain_deeper_than_the_stack_is_flattened_and_freed() -> None:
    node: Depset[int] = Depset([0])
    for item in range(1, 200_000):
        node = Depset([item], [node])
    assert len(node.to_list()) == 200_000


def test_emptiness_is_seen_without_flattening() -> None:
    assert not Depset()
    assert not Depset((), [Depset(), Depset((), [Depset()])])
    assert Depset([1]) and Depset((), [Depset([1])])
