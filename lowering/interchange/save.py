"""An ExportedProgram → the file of its graph and the file of its constants."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram

from ..errors import LoweringError
from ..files import replacing
from .graph import GraphWriter
from .signature import encode_module_calls, encode_signature
from .tensors import TensorSpec, identity, is_dense, write_tensors

FORMAT = "rules_executorch edge program"
VERSION = 1


def save_program(
    program: ExportedProgram,
    graph_path: str | os.PathLike[str],
    constants_path: str | os.PathLike[str],
    *,
    leave_out: Collection[str] = (),
) -> None:
    """Write `program` to two files: its graph as JSON, its tensors as safetensors.

    Parameters and buffers named in `leave_out` are referred to by name only: `load_program` takes them
    from a checkpoint. The same program gives the same bytes. Example inputs are not kept.

    Raises:
        LoweringError: the program holds what files do not (a script object, a delegate, …); the message
            names the node.
    """
    document, tensors = encode_program(program, leave_out)
    write_tensors(tensors, constants_path)
    with replacing(graph_path) as temporary:
        temporary.write_text(document, encoding="utf-8")


def encode_program(program: ExportedProgram, leave_out: Collection[str]) -> tuple[str, dict[str, torch.Tensor]]:
    """The text of a program's graph, and by name the tensors that go with it. Args and errors: as save_program."""
    writer = GraphWriter()
    graph = writer.encode(program.graph_module)
    tensors = {**_state(program), **writer.attributes}
    names = _names_by_identity({**program.state_dict, **program.constants})
    specs = [
        _spec(name, tensor, tuple(names.get(identity(tensor), ())), leave_out) for name, tensor in tensors.items()
    ]
    ranges = [
        [writer.expressions.add(part, None) for part in (symbol, bounds.lower, bounds.upper)]
        for symbol, bounds in sorted(program.range_constraints.items(), key=lambda item: str(item[0]))
    ]
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "dialect": program.dialect,
        "graph": graph,
        "signature": encode_signature(program.graph_signature),
        "module_calls": encode_module_calls(program.module_call_graph),
        "ranges": ranges,
        "tensors": [spec.to_data() for spec in specs],
        "tables": writer.tables(),
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text, {spec.name: tensors[spec.name] for spec in specs if not spec.supplied}


def _state(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """What the signature refers to, in its order: parameters, buffers, lifted constants."""
    state: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is None or spec.target in state:
            continue
        value = program.state_dict.get(spec.target, program.constants.get(spec.target))
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise LoweringError(f"constant {spec.target!r} is a {kind}: only tensors can be kept in a file")
        state[spec.target] = value
    return state


def _spec(name: str, tensor: torch.Tensor, names: tuple[str, ...], leave_out: Collection[str]) -> TensorSpec:
    aliases = tuple(sorted(other for other in names if other != name))
    supplied = any(known in leave_out for known in (name, *aliases))
    if isinstance(tensor, FakeTensor) and not supplied:
        raise LoweringError(
            f"tensor {name!r} has no data: the model was exported on fake tensors",
            remedies=["export it on real ones", "leave its values to a checkpoint"],
        )
    shape = tuple(tensor.shape)
    strides = tensor.stride() if is_dense(shape, tensor.stride()) else torch.empty(shape, device="meta").stride()
    return TensorSpec(
        name,
        tensor.dtype,
        shape,
        tuple(strides),
        isinstance(tensor, torch.nn.Parameter),
        tensor.requires_grad,
        supplied,
        aliases,
    )


def _names_by_identity(state: Mapping[str, torch.Tensor]) -> dict[Hashable, list[str]]:
    """The names of each tensor: tied weights have several."""
    names: dict[Hashable, list[str]] = {}
    for name, tensor in state.items():
        if isinstance(tensor, torch.Tensor):
            names.setdefault(identity(tensor), []).append(name)
    return names
