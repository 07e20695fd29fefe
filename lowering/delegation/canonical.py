"""Partitions as backends get them: with names and debug handles that say nothing of the rest of the program.

So a backend's result depends on the partition alone, and is known again when something else has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch.fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature

from ..errors import GIVEN_NAME
from .backend import PreprocessResult
from .graph_copy import copy_program, copy_spec

# What torch notes on nodes for itself: it says the same as `val`, or is numbered throughout the program.
_DROPPED = frozenset(
    ("desc", "eager_input_vals", "from_node", "original_aten", "partitioner_tag", "seq_nr", "source_fn_stack",
     "tensor_meta", "torch_fn")
)  # fmt: skip
# Of an input it would say where its value is made, which is no matter of the partition's.
_DROPPED_OF_INPUTS = _DROPPED | {"debug_handle", "nn_module_stack", "stack_trace"}


def canonical_copy(program: ExportedProgram) -> tuple[ExportedProgram, dict[int, int]]:
    """A copy whose nodes are named v0, v1, … and have the debug handles 1, 2, …; and handle → the original's handle.

    Tensors are shared. Messages of errors still name nodes as the original does.
    """
    copied = copy_program(program)
    handles: dict[int, int] = {}
    names: dict[str, str] = {}
    for graph_module in copied.graph_module.modules():
        if isinstance(graph_module, torch.fx.GraphModule):
            renamed = _rename(graph_module.graph, handles)
            if graph_module is copied.graph_module:
                names = renamed
    signature = copied.graph_signature
    copied._graph_signature = ExportGraphSignature(
        [copy_spec(spec, names.get(getattr(spec.arg, "name", None))) for spec in signature.input_specs],
        [copy_spec(spec, names.get(getattr(spec.arg, "name", None))) for spec in signature.output_specs],
    )
    return copied, handles


def with_handles(result: PreprocessResult, handles: Mapping[int, int]) -> PreprocessResult:
    """`result`, of a canonical copy, with the original's debug handles."""
    handle_map = {
        own: tuple(handles.get(handle, handle) for handle in (value if isinstance(value, tuple) else (value,)))
        for own, value in result.debug_handle_map.items()
    }
    return replace(result, debug_handle_map=handle_map)


def _rename(graph: torch.fx.Graph, handles: dict[int, int]) -> dict[str, str]:
    """Rename the nodes of a graph, and number their debug handles on; returns new names by old ones."""
    names = {}
    for index, node in enumerate(graph.nodes):
        dropped = _DROPPED_OF_INPUTS if node.op == "placeholder" else _DROPPED
        meta = {key: value for key, value in node.meta.items() if key not in dropped}
        meta[GIVEN_NAME] = node.name
        if isinstance(handle := meta.get("debug_handle"), int):
            meta["debug_handle"] = len(handles) + 1
            handles[len(handles) + 1] = handle
        node.meta = meta
        names[node.name] = node.name = f"v{index}"
        if node.op == "placeholder":
            node.target = node.name
    return names
