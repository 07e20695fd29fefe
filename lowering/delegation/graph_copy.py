"""Copies of programs: nodes and their metadata anew, tensors shared, nothing traced again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputSpec

from ..uncompiled import uncompiled_graph_module, uncompiled_program

TAG = "delegation_tag"  # node.meta's key for a partition's tag, as ExecuTorch spells it


def copy_program(program: ExportedProgram, *, without_data: bool = False) -> ExportedProgram:
    """The same program over new nodes. Linear in nodes; tensors are shared.

    `without_data` puts fake tensors in place of parameters, buffers and constants, leaving out
    those that the graph does not use.
    """
    graph, attributes = _copy_graph(program.graph_module)
    state_dict, constants = _fake_data(program) if without_data else (program.state_dict, program.constants)
    return rebuild(program, attributes, graph, program.graph_signature, state_dict=state_dict, constants=constants)


def copy_attribute(graph_module: torch.fx.GraphModule, target: str) -> Any:
    """What a get_attr node of `graph_module` refers to; a copy of it where it is a graph."""
    attribute = attribute_of(graph_module, target)
    if not isinstance(attribute, torch.fx.GraphModule):
        return attribute
    graph, attributes = _copy_graph(attribute)
    return new_graph_module(attribute, attributes, graph)


def _copy_graph(graph_module: torch.fx.GraphModule) -> tuple[torch.fx.Graph, dict[str, Any]]:
    """The same graph over new nodes, and what it refers to: bodies of control flow are copied, all else is shared."""
    graph = torch.fx.Graph()
    attributes: dict[str, Any] = {}
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph_module.graph.nodes:
        nodes[node] = copy_node(graph, node, nodes)
        if node.op == "get_attr":
            attributes[node.target] = copy_attribute(graph_module, node.target)
    return graph, attributes


def copy_node(
    graph: torch.fx.Graph, node: torch.fx.Node, nodes: Mapping[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node:
    """A copy of a node; of a placeholder, under its own name, to which signatures refer, even if it is Python's too."""
    copied = graph.node_copy(node, nodes.__getitem__)
    if node.op == "placeholder":
        copied.name = node.name
    return copied


def attribute_of(module: torch.nn.Module, target: str) -> Any:
    """What a get_attr node's dotted target refers to."""
    for name in target.split("."):
        module = getattr(module, name)
    return module


def untagged(meta: Mapping[str, Any]) -> dict[str, Any]:
    """A node's metadata without its tag, for a copy of the node."""
    return {key: value for key, value in meta.items() if key != TAG}


def new_graph_module(
    like: torch.fx.GraphModule, attributes: Mapping[str, Any], graph: torch.fx.Graph
) -> torch.fx.GraphModule:
    """A GraphModule of `graph` with the metadata of `like`."""
    graph_module = uncompiled_graph_module(attributes, graph)
    graph_module.meta.update(like.meta)
    return graph_module


def rebuild(
    like: ExportedProgram,
    attributes: Mapping[str, Any],
    graph: torch.fx.Graph,
    signature: ExportGraphSignature,
    *,
    state_dict: Mapping[str, torch.Tensor],
    constants: Mapping[str, Any],
) -> ExportedProgram:
    """A program of `graph` and the attributes that it refers to, all else as in `like`.

    Specs are copied, tensors shared.
    """
    names = {node.name for node in graph.nodes}
    module_call_graph = [
        entry if entry.fqn == "" or _names_of(entry) <= names else replace(entry, signature=None)
        for entry in like.module_call_graph
    ]
    program = uncompiled_program(
        root=dict(attributes),
        graph=graph,
        graph_signature=ExportGraphSignature(
            [copy_spec(spec) for spec in signature.input_specs], [copy_spec(spec) for spec in signature.output_specs]
        ),
        state_dict=dict(state_dict),
        range_constraints=dict(like.range_constraints),
        module_call_graph=module_call_graph,
        example_inputs=like.example_inputs,
        constants=dict(constants),
        verifiers=like.verifiers,
    )
    program.graph_module.meta.update(like.graph_module.meta)
    return program


def copy_spec(spec: Any, name: str | None = None) -> Any:
    """An InputSpec or OutputSpec of its own, optionally for a node of another name."""
    assert isinstance(spec, (InputSpec, OutputSpec))
    arg = copy.copy(spec.arg)
    if name is not None and hasattr(arg, "name"):
        arg.name = name
    return replace(spec, arg=arg)


def _names_of(entry: torch.export.ModuleCallEntry) -> set[str]:
    """The nodes that a preserved module call refers to."""
    if entry.signature is None:
        return set()
    return {arg.name for arg in (*entry.signature.inputs, *entry.signature.outputs) if getattr(arg, "name", None)}


def _fake_data(program: ExportedProgram) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """State and constants by name, as the fake tensors that the placeholders have as values."""
    state_dict: dict[str, torch.Tensor] = {}
    constants: dict[str, Any] = {}
    values = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]
    # A fake tensor finds its mode by itself as well, which takes three times as long for each.
    with detect_fake_mode(values) or nullcontext():
        for value, spec in zip(values, program.graph_signature.input_specs):
            if spec.kind == InputKind.PARAMETER:
                state_dict[spec.target] = torch.nn.Parameter(value, requires_grad=False)
            elif spec.kind == InputKind.BUFFER:
                (state_dict if spec.target in program.state_dict else constants)[spec.target] = value
            elif spec.kind == InputKind.CONSTANT_TENSOR:
                constants[spec.target] = value
            elif spec.kind == InputKind.CUSTOM_OBJ:
                constants[spec.target] = program.constants[spec.target]
    return state_dict, constants
