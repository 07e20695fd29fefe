"""From a module to a program file in one call, and its comparison with eager PyTorch on the official runtime."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.emit.emit import EmitConfig, EmittedProgram, emit_program
from rules_executorch.lowering.format.ptd import ptd_bytes
from rules_executorch.lowering.format.write import pte_bytes
from support.official_runtime import run_methods


def edge(module: torch.nn.Module, inputs: Sequence[Any], dynamic_shapes: Any = None) -> ExportedProgram:
    """The edge program of a module's forward."""
    with torch.no_grad():
        exported = torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=dynamic_shapes)
    return to_edge_program(exported)


def emit(
    module: torch.nn.Module, inputs: Sequence[Any], dynamic_shapes: Any = None, config: EmitConfig = EmitConfig()
) -> EmittedProgram:
    """A program with one method, `forward`."""
    return emit_program({"forward": edge(module, inputs, dynamic_shapes)}, config=config)


def check(
    module: torch.nn.Module,
    *runs: Sequence[Any],
    dynamic_shapes: Any = None,
    config: EmitConfig = EmitConfig(),
    atol: float = 1e-5,
    **options: Any,
) -> EmittedProgram:
    """Emit a module and compare each run, in order and with state kept, with eager PyTorch.

    The first run's inputs are those it is exported with. Returns what was emitted.
    """
    emitted = emit(copy.deepcopy(module), copy.deepcopy(runs[0]), dynamic_shapes, config)
    assert_same(emitted, module, [("forward", run) for run in runs], atol=atol, **options)
    return emitted


def assert_same(
    emitted: EmittedProgram,
    module: torch.nn.Module,
    calls: Sequence[tuple[str, Sequence[Any]]],
    *,
    methods: Mapping[str, str] | None = None,
    atol: float = 1e-5,
    **options: Any,
) -> None:
    """Make calls on the official runtime and on a copy of `module`, whose methods are named as the program's."""
    reference = copy.deepcopy(module).eval()
    ptds = [ptd_bytes(data) for data in emitted.external_data.values()]
    if ptds:
        options["ptd"] = ptds[0]
    flat_calls = [(name, [leaf for leaf in tree_leaves(inputs) if leaf is not None]) for name, inputs in calls]
    results = run_methods(pte_bytes(emitted), copy.deepcopy(flat_calls), **options)
    for (name, inputs), outputs in zip(calls, results):
        with torch.no_grad():
            expected = tree_leaves(getattr(reference, (methods or {}).get(name, name))(*copy.deepcopy(inputs)))
        assert len(outputs) == len(expected), f"{len(outputs)} outputs for {len(expected)}"
        for output, wanted in zip(outputs, expected):
            if isinstance(wanted, torch.Tensor):
                torch.testing.assert_close(output, wanted, atol=atol, rtol=1e-4)
            else:
                assert output == wanted
