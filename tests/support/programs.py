"""From models to programs by the public API, and their comparison with eager PyTorch on the official runtime."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rules_executorch.lowering import (
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    Method,
    Model,
    export_method,
    to_edge_transform_and_lower,
)
from rules_executorch.lowering.format.ptd import ptd_bytes
from torch.utils._pytree import tree_leaves

from support.official_runtime import run_methods

Call = tuple[str, tuple[Any, ...]]


def lowered(
    model: Model | torch.nn.Module,
    *inputs: Any,
    dynamic_shapes: Any = None,
    partitioner: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    config: ExecutorchBackendConfig | None = None,
) -> ExecutorchProgramManager:
    """The program of a Model, or of a module's forward on example `inputs`. Neither is changed."""
    if not isinstance(model, Model):
        model = Model(model, {"forward": Method(inputs, dynamic_shapes=dynamic_shapes)})
    model = copy.deepcopy(model)
    with torch.no_grad():
        programs = {name: export_method(model, name) for name in model.methods}
    edge = to_edge_transform_and_lower(programs, partitioner=partitioner, constant_methods=constant_methods)
    return edge.to_executorch(config)


def assert_matches(
    program: ExecutorchProgramManager, module: torch.nn.Module, *calls: Call, atol: float = 1e-5, **options: Any
) -> None:
    """Make `calls`, (method, inputs), one after the other on the runtime and on a copy of `module`.

    Methods of the program are those of the module with the same names. Options are those of run_methods.
    """
    module = copy.deepcopy(module)
    ptds = [ptd_bytes(data) for data in program._emitted.external_data.values()]
    if ptds:
        options["ptd"] = ptds[0]
    flat = [(name, [leaf for leaf in tree_leaves(inputs) if leaf is not None]) for name, inputs in calls]
    results = run_methods(program.buffer, copy.deepcopy(flat), **options)
    for (name, inputs), actual in zip(calls, results):
        with torch.no_grad():
            expected = tree_leaves(getattr(module, name)(*copy.deepcopy(inputs)))
        assert len(actual) == len(expected), f"{name} gives {len(actual)} values, expected {len(expected)}"
        torch.testing.assert_close(actual, expected, atol=atol, rtol=1e-4)


def operators(program: ExecutorchProgramManager, method: str = "forward") -> list[str]:
    """The kernels that a method calls, one for each instruction, without overloads' namespaces: `add.out`."""
    plan = plan_of(program, method)
    calls = [each for chain in plan.chains for each in chain.instructions]
    return [str(plan.operators[call.op_index]).partition("::")[2] for call in calls if hasattr(call, "op_index")]


def plan_of(program: ExecutorchProgramManager, method: str = "forward") -> Any:
    """A method's execution plan."""
    return next(p for p in program.executorch_program.program_file.program.execution_plan if p.name == method)


def forward(*runs: Sequence[Any]) -> list[Call]:
    """Calls of `forward`."""
    return [("forward", tuple(run)) for run in runs]
