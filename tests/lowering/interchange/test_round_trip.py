"""Every program of the zoo comes back from its files as it was, and gives the same bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rules_executorch.lowering.interchange import load_program, save_program
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from support import zoo


def export(case: zoo.Case) -> ExportedProgram:
    return torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes)


@pytest.mark.parametrize("name", sorted(zoo.CASES))
def test_a_program_comes_back_as_it_was(name: str, tmp_path: Path):
    case = zoo.make(name)
    program = export(case)
    save_program(program, tmp_path / "graph", tmp_path / "constants")
    loaded = load_program(tmp_path / "graph", [tmp_path / "constants"])

    assert_same_graph(program.graph_module, loaded.graph_module)
    assert loaded.graph_signature == program.graph_signature
    assert loaded.range_constraints == program.range_constraints

    save_program(loaded, tmp_path / "graph2", tmp_path / "constants2")
    assert (tmp_path / "graph2").read_bytes() == (tmp_path / "graph").read_bytes()
    assert (tmp_path / "constants2").read_bytes() == (tmp_path / "constants").read_bytes()

    module, loaded_module = program.module(), loaded.module()
    for inputs in (case.inputs, *case.more_inputs):
        expected = pytree.tree_leaves(module(*inputs))
        # Kernels may differ in the last bits with the alignment of the weights, which are in a mapped file.
        for ours, theirs in zip(pytree.tree_leaves(loaded_module(*inputs)), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)


def assert_same_graph(one: torch.fx.GraphModule, other: torch.fx.GraphModule) -> None:
    pairs = list(zip(one.graph.nodes, other.graph.nodes, strict=True))
    same = dict(pairs)
    for node, again in pairs:
        assert (node.op, node.name, node.target) == (again.op, again.name, again.target)
        assert torch.fx.node.map_arg((node.args, node.kwargs), same.get) == (again.args, again.kwargs)
        assert described(node.meta.get("val")) == described(again.meta.get("val"))
        assert (node.meta.get("nn_module_stack") or None) == again.meta.get("nn_module_stack")
        assert bool(node.meta.get("stack_trace")) == bool(again.meta.get("stack_trace"))
        assert node.meta.get("unbacked_bindings") == again.meta.get("unbacked_bindings")
        if node.op == "get_attr" and isinstance(getattr(one, node.target), torch.fx.GraphModule):
            assert_same_graph(getattr(one, node.target), getattr(other, node.target))


def described(value: object) -> object:
    """What of a value's metadata can be compared."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, [str(s) for s in value.shape], [str(s) for s in value.stride()], str(value.device))
    if isinstance(value, (list, tuple)):
        return type(value)(map(described, value))
    return str(value)
