"""The parts of an edge program while passes still change them, and what is dead in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node

from ..uncompiled import uncompiled_program

_CONSTANT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclass
class EdgeParts:
    """A graph with the modules that it refers to, its signature, and the tensors that the signature names.

    Names of outputs in `output_specs` count for nothing until `program` sets them.
    """

    graph: Graph
    modules: dict[str, torch.nn.Module]
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    state_dict: dict[str, Any]
    constants: dict[str, Any]

    def placeholder_specs(self) -> list[tuple[Node, InputSpec]]:
        """Each placeholder with what the signature says of it, in order."""
        return list(zip(self.graph.find_nodes(op="placeholder"), self.input_specs))

    def constant_placeholders(self) -> dict[Node, torch.Tensor]:
        """The placeholders whose tensors are known and never written to, with those tensors.

        A tensor without data (fake, or on the meta device) is not known: a checkpoint will supply it.
        """
        written = {spec.target for spec in self.output_specs if spec.kind in _MUTATIONS}
        found = {}
        for node, spec in self.placeholder_specs():
            tensor = self.tensor(spec)
            if tensor is not None and spec.target not in written and has_data(tensor):
                found[node] = tensor
        return found

    def tensor(self, spec: InputSpec) -> torch.Tensor | None:
        """The parameter, buffer or constant that `spec` names; None for inputs."""
        if spec.kind not in _CONSTANT_KINDS:
            return None
        value = self.constants.get(spec.target)
        return value if value is not None else self.state_dict.get(spec.target)

    def add_constant(self, tensor: torch.Tensor, val: torch.Tensor, meta: dict[str, Any]) -> Node:
        """A placeholder for a new constant, after those that there are and before the user's inputs."""
        specs = self.placeholder_specs()
        position = next((i for i, (_, s) in enumerate(specs) if s.kind not in _CONSTANT_KINDS), len(specs))
        name = f"_folded_{sum(key.startswith('_folded_') for key in self.constants)}"
        following = specs[position][0] if position < len(specs) else None
        before = following or next(node for node in self.graph.nodes if node.op != "placeholder")
        with self.graph.inserting_before(before):
            node = self.graph.placeholder(f"c{name}")
        node.meta.update(meta, val=val)
        self.constants[name] = tensor
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=node.name), target=name)
        self.input_specs.insert(position, spec)
        return node

    def program(self, source: ExportedProgram) -> ExportedProgram:
        """The finished program; what is not in the parts is as in `source`."""
        outputs = [_named(spec, value) for spec, value in zip(self.output_specs, self.graph.output_node().args[0])]
        return uncompiled_program(
            root=self.modules,
            graph=self.graph,
            graph_signature=ExportGraphSignature(self.input_specs, outputs),
            state_dict=self.state_dict,
            range_constraints=dict(source.range_constraints),
            module_call_graph=source.module_call_graph,
            example_inputs=source.example_inputs,
            constants=self.constants,
        )


def _named(spec: OutputSpec, value: Any) -> OutputSpec:
    """`spec` for the output that is `value`: a node, or a constant."""
    if not isinstance(value, Node):
        return replace(spec, arg=ConstantArgument(name="", value=value))
    if isinstance(spec.arg, ConstantArgument):
        return spec
    return replace(spec, arg=replace(spec.arg, name=value.name))


def is_delegate_call(node: Node) -> bool:
    """Whether `node` calls a delegate, whose state and results are its own affair."""
    return isinstance(node.target, HigherOrderOperator) and node.target.__name__ == "executorch_call_delegate"


def has_data(tensor: torch.Tensor) -> bool:
    """Whether the tensor's values are known."""
    return not isinstance(tensor, torch._subclasses.FakeTensor) and tensor.device.type != "meta"


def remove_dead_code(parts: EdgeParts) -> None:
    """Remove nodes that nothing uses, then parameters, buffers and constants that nothing uses."""
    graph = parts.graph
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op in ("call_function", "get_attr") and not is_delegate_call(node):
            graph.erase_node(node)
    kept = []
    # What this call writes, the next one reads.
    written = {spec.target for spec in parts.output_specs if spec.kind in _MUTATIONS}
    for node, spec in parts.placeholder_specs():
        if spec.kind in _CONSTANT_KINDS and not node.users and spec.target not in written:
            graph.erase_node(node)
        else:
            kept.append(spec)
    parts.input_specs[:] = kept
    used = {spec.target for spec in kept}
    for tensors in (parts.state_dict, parts.constants):
        for name, value in list(tensors.items()):
            if name not in used and isinstance(value, torch.Tensor):
                del tensors[name]
