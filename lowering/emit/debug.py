"""From instructions back to the nodes of the graph: what profilers and debuggers need beside the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from ..delegation.lowered_module import called_module
from ..format import schema
from .method import EmittedMethod


@dataclass(frozen=True)
class DebugMaps:
    """One method's maps, each by instruction number."""

    debug_handles: Mapping[int, int | tuple[int, ...]]
    delegates: Mapping[int, dict[str, Any]]
    output_counts: Mapping[int, int]


def debug_maps(method: EmittedMethod) -> DebugMaps:
    """The maps of an emitted method."""
    handles: dict[int, int | tuple[int, ...]] = {}
    delegates: dict[int, dict[str, Any]] = {}
    counts: dict[int, int] = {}
    code = method.emitter.code
    for index, (instruction, node) in enumerate(zip(code.instructions, code.nodes)):
        if node is None:
            continue
        if isinstance(instruction, schema.DelegateCall):
            module = called_module(node)
            delegate_map = dict(module.debug_handle_map)
            delegates[index] = {"name": module.backend_id, "delegate_map": delegate_map}
            handles[index] = tuple(sorted({handle for inner in delegate_map.values() for handle in inner}))
        elif isinstance(node.meta.get("debug_handle"), int):
            handles[index] = node.meta["debug_handle"]
        counts[index] = _output_count(node)
    return DebugMaps(handles, delegates, counts)


def _output_count(node: Node) -> int:
    value = node.meta.get("val")
    return len(value) if isinstance(value, (tuple, list)) else 1
