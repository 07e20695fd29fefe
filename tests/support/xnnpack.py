"""Lowering to XNNPACK for tests, and what became of a program."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from rules_executorch.backends.xnnpack import XnnpackPartitioner, preprocess
from rules_executorch.backends.xnnpack.graph import Graph
from rules_executorch.lowering import to_edge_transform_and_lower
from rules_executorch.lowering.delegation.delegation_info import DelegationInfo, get_delegation_info
from rules_executorch.lowering.program import EdgeProgramManager
from torch.utils._pytree import tree_leaves

from .official_runtime import run_methods
from .zoo.case import Lambda


def module(function: Any) -> torch.nn.Module:
    """A module that applies a function to its inputs."""
    return Lambda(lambda self, *inputs: function(*inputs)).eval()


def lower(
    model: torch.nn.Module, inputs: Sequence[Any], *, dynamic_shapes: Any = None, **options: Any
) -> EdgeProgramManager:
    """Export and delegate; `options` are XnnpackPartitioner's, by default without the cost rule."""
    if dynamic_shapes is not None and isinstance(model, Lambda):
        dynamic_shapes = (dynamic_shapes,)  # of its variable arguments
    program = torch.export.export(model.eval(), tuple(inputs), dynamic_shapes=dynamic_shapes)
    return to_edge_transform_and_lower(program, partitioner=XnnpackPartitioner(**{"cost_rule": False, **options}))


def info(manager: EdgeProgramManager) -> DelegationInfo:
    return get_delegation_info(manager.exported_program())


def check(
    model: torch.nn.Module, inputs: Sequence[Any], *more_inputs: Sequence[Any], dynamic_shapes: Any = None,
    whole: bool = True, rtol: float = 1e-4, atol: float = 1e-4, **options: Any,
) -> EdgeProgramManager:  # fmt: skip
    """Lower, run on the official runtime, compare with eager; with `whole`, nothing may be left outside."""
    manager = lower(model, inputs, dynamic_shapes=dynamic_shapes, **options)
    if whole:
        found = info(manager)
        assert (found.num_non_delegated_nodes, found.num_delegated_subgraphs) == (0, 1), found.get_reasons()
    calls = [tuple(inputs), *more_inputs]
    flat_calls = [("forward", tree_leaves(call)) for call in calls]
    eager = copy.deepcopy(model)
    with torch.no_grad():
        expected = [tree_leaves(eager(*call)) for call in calls]
    for got, wanted in zip(run_methods(manager.to_executorch().buffer, flat_calls), expected):
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
    return manager


@contextmanager
def graphs_written() -> Iterator[list[Graph]]:
    """The graphs of the partitions that are compiled meanwhile, as they are written."""
    made: list[Graph] = []

    def remember(graph: Graph) -> Graph:
        made.append(finish(graph))
        return made[-1]

    finish = preprocess.finish
    with mock.patch.object(preprocess, "finish", remember):
        yield made


def graphs_of(model: torch.nn.Module, inputs: Sequence[Any], **options: Any) -> list[Graph]:
    """What is written for each partition."""
    with graphs_written() as made:
        lower(model, inputs, **options)
    return made


def kinds_of(model: torch.nn.Module, inputs: Sequence[Any], **options: Any) -> Counter[str]:
    """How often each kind of node is written."""
    return Counter(node.kind for graph in graphs_of(model, inputs, **options) for node in graph.nodes)
