"""The digest of all that a backend's work on one partition depends on, besides the backend's code.

Not in it: where in the model's source a node comes from, which only messages say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from ..errors import GIVEN_NAME, LoweringError
from ..interchange.graph import GraphWriter
from ..interchange.signature import encode_signature
from ..interchange.tensors import identity
from .backend import CompileSpec
from .named_data import content_key

_VERSION = "1"

# What a program's encoding says of a node beside its value; other keys of node.meta have to be plain data.
_ENCODED = frozenset(
    ("val", "stack_trace", "nn_module_stack", "debug_handle", "unbacked_bindings", "custom", GIVEN_NAME)
)

# Size and SHA-256 of each tensor of a program, by name.
Contents = Mapping[str, tuple[int, bytes]]


def partition_key(
    backend_id: str, program: ExportedProgram, compile_specs: Sequence[CompileSpec], contents: Contents
) -> str | None:
    """64 hexadecimal digits; None where the partition has something that no digest can tell of.

    `program` is a canonical copy, `contents` are its tensors'.
    """
    writer = GraphWriter()
    try:
        graph = writer.encode(program.graph_module)
        others = _other_metadata(program.graph_module)
    except (LoweringError, TypeError, ValueError):
        return None
    _drop_traces(graph)
    tables = {name: entries for name, entries in writer.tables().items() if name != "frames"}
    tensors = {**program.state_dict, **program.constants, **writer.attributes}
    same: dict[Any, int] = {}
    description = {
        "version": _VERSION,
        "backend": backend_id,
        "compile_specs": [[spec.key, spec.value.hex()] for spec in compile_specs],
        "graph": graph,
        "metadata": others,
        "tables": tables,
        "signature": encode_signature(program.graph_signature),
        "ranges": sorted([str(symbol), str(bounds)] for symbol, bounds in program.range_constraints.items()),
        "tensors": [
            [
                name,
                str(tensor.dtype),
                list(tensor.shape),
                list(tensor.stride()),
                same.setdefault(identity(tensor), len(same)),
                (contents.get(name) or content_key(tensor.detach().contiguous()))[1].hex(),
            ]
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor)
        ],
    }
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _other_metadata(graph_module: GraphModule) -> list[Any]:
    """What partitioners noted on nodes for their backends. Raises ValueError for what is not plain data."""
    noted = []
    for module in graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            others = {key: _plain(value) for key, value in node.meta.items() if key not in _ENCODED}
            noted.append([node.name, others] if others else node.name)
    return noted


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise ValueError(f"a {type(value).__name__} is not plain data")


def _drop_traces(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        node[-1].pop("trace", None)
    for kind, content in graph["attributes"].values():
        if kind == "graph":
            _drop_traces(content)
