"""Every model of the zoo, lowered to the portable kernels, agrees with eager on the official runtime."""

from __future__ import annotations

import copy

import pytest
import torch
from support import zoo
from support.official_runtime import run_methods
from torch.utils import _pytree as pytree

from rules_executorch.lowering import to_edge


@pytest.mark.parametrize("name", zoo.CASES)
def test_a_model_agrees_with_eager(name: str) -> None:
    case = zoo.make(name)
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(case.module), case.inputs, dynamic_shapes=case.dynamic_shapes)
        pte = to_edge(program).to_executorch().buffer
        runs = [case.inputs, *case.more_inputs]
        # The state of a stateful model goes from run to run, in eager as on the device.
        expected = [pytree.tree_leaves(case.module(*inputs)) for inputs in runs]
    actual = run_methods(pte, [("forward", pytree.tree_leaves(inputs)) for inputs in runs])
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-3)
