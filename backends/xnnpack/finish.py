"""The last step before a graph is written: every output is a value of its own that a node makes."""

from __future__ import annotations

from dataclasses import replace

from .graph import Graph, Node, Value


def finish(graph: Graph) -> Graph:
    """Copy what would be an output twice, or an input or a constant that is an output as it is."""
    made = {result for node in graph.nodes for result in node.results}
    outputs: list[Value] = []
    nodes = list(graph.nodes)
    for value in graph.outputs:
        if value not in made or value in outputs:
            copy = replace(value, constant=None)
            nodes.append(Node("Copy", (value,), (copy,)))
            value = copy
        outputs.append(value)
    return replace(graph, outputs=tuple(outputs), nodes=tuple(nodes))
