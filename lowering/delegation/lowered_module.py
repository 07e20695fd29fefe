"""A delegated partition as it stands in a graph: a module with the backend's bytes, and the operator that calls it.

In a graph it is two nodes, `get_attr lowered_module_N` and
`call_function executorch_call_delegate(lowered_module_N, *inputs)`, whose value is a tuple; each
output in use is an `operator.getitem` of it. The operator is torch's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.node import has_side_effect

from .backend import CompileSpec, PreprocessResult
from .graph_copy import attribute_of
from .named_data import NamedDataStoreOutput

# A delegate may own state: torch must not drop a call because nothing reads its outputs.
has_side_effect(executorch_call_delegate)

# New values of a program's own state.
STATE_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


# torch's verifier knows this class by its name, and asks for `backend_id`, `processed_bytes`,
# `compile_specs` (a list) and `original_module`.
class LoweredBackendModule(torch.nn.Module):
    """One partition: the program that was delegated, and what its backend made of it.

    Called with the partition's inputs (tensors and ints) it runs the original program in eager
    mode and returns a tuple, so that a delegated program still runs in Python. Buffers that the
    partition owns and mutates live on in it from call to call, as they do on the device.

    A copy shares the program and its weights, which nobody changes, and has its own state.
    """

    def __init__(self, backend_id: str, original_program: ExportedProgram, compile_specs: Sequence[CompileSpec] = ()):
        super().__init__()
        self.backend_id = backend_id
        self.original_program = original_program
        self.compile_specs = list(compile_specs)
        self.result = PreprocessResult()
        self._state: dict[str, torch.Tensor] = {}

    @property
    def processed_bytes(self) -> bytes:
        """What the backend's runtime gets at init."""
        return self.result.processed_bytes

    @property
    def named_data_store_output(self) -> NamedDataStoreOutput | None:
        """Data that the backend's runtime finds by key, stored once per program; None for none."""
        return self.result.data_store_output

    @property
    def debug_handle_map(self) -> Mapping[int, tuple[int, ...]]:
        """The backend's handles → the debug handles of the original program's nodes."""
        return self.result.debug_handle_map

    @property
    def delegate_info_meta(self) -> Any:
        """What the backend wants to be known of its work; the engine does not look at it."""
        return self.result._delegate_info_meta

    @property
    def original_module(self) -> _Runnable:
        """For torch's call operator, which runs `original_module.module()(*inputs)`."""
        return _Runnable(self)

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        fake_mode = detect_fake_mode(inputs)
        program, signature = self.original_program, self.original_program.graph_signature
        lifted = []
        for spec in signature.input_specs:
            if spec.kind != InputKind.USER_INPUT:
                tensor = self._tensor(spec.target)
                lifted.append(tensor if fake_mode is None else fake_mode.from_tensor(tensor, static_shapes=True))
        with torch.no_grad():
            values = program.graph_module(*lifted, *inputs)
        outputs = []
        for spec, value in zip(signature.output_specs, values):
            if spec.kind not in STATE_MUTATIONS:
                outputs.append(value)
            elif fake_mode is None:
                self._state[spec.target] = value.detach().clone()
        return tuple(outputs)

    def _tensor(self, name: str) -> torch.Tensor:
        """The present value of a parameter, buffer or constant of the original program."""
        if name in self._state:
            return self._state[name]
        program = self.original_program
        return program.state_dict[name] if name in program.state_dict else program.constants[name]

    def __deepcopy__(self, memo: dict[int, Any]) -> LoweredBackendModule:
        copied = LoweredBackendModule(self.backend_id, self.original_program, self.compile_specs)
        copied.result = self.result
        copied._state = copy.deepcopy(self._state, memo)
        memo[id(self)] = copied
        return copied

    def extra_repr(self) -> str:
        return f"{self.backend_id}, {len(self.processed_bytes)} bytes"


class _Runnable:
    """What torch's call operator takes a delegated program to be."""

    def __init__(self, module: LoweredBackendModule):
        self._module = module

    def module(self) -> LoweredBackendModule:
        return self._module


def lowered_modules(graph_module: torch.fx.GraphModule) -> Iterator[LoweredBackendModule]:
    """Every delegate of a program, those in the bodies of its control flow included, in graph order."""
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            attribute = attribute_of(graph_module, node.target)
            if isinstance(attribute, LoweredBackendModule):
                yield attribute
            elif isinstance(attribute, torch.fx.GraphModule):
                yield from lowered_modules(attribute)


def called_module(node: torch.fx.Node) -> LoweredBackendModule:
    """The delegate that an `executorch_call_delegate` node calls."""
    return attribute_of(node.graph.owning_module, node.args[0].target)
