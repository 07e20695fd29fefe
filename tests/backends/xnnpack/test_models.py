"""The zoo on the official runtime: with what XNNPACK takes in XNNPACK, every model still is what eager says."""

from __future__ import annotations

import copy

import pytest
import torch
from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering import to_edge_transform_and_lower
from support import zoo
from support.official_runtime import run_methods
from torch.utils._pytree import tree_leaves


@pytest.mark.parametrize("name", zoo.CASES)
def test_models_equal_eager(name: str) -> None:
    case = zoo.make(name)
    program = torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes)
    manager = to_edge_transform_and_lower(program, partitioner=XnnpackPartitioner())
    calls = [case.inputs, *case.more_inputs]
    results = run_methods(manager.to_executorch().buffer, [("forward", tree_leaves(call)) for call in calls])
    eager = copy.deepcopy(case.module)
    for call, got in zip(calls, results):
        with torch.no_grad():
            expected = tree_leaves(eager(*call))
        for a, b in zip(got, expected, strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=3e-4, equal_nan=True, check_stride=False)
            else:
                assert a == b
