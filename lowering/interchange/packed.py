"""A program as one piece of bytes, without those tensors that its reader has."""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.torch
import torch
from torch.export import ExportedProgram

from ..errors import LoweringError
from .load import decode_program, specs_of
from .save import encode_program
from .tensors import as_specified, dense_tensors, identity

_LENGTH_BYTES = 8


def pack_program(program: ExportedProgram, known: Mapping[str, torch.Tensor]) -> bytes | None:
    """`program` as bytes. Of tensors that are in `known`, only the name is written; None for what no file holds."""
    own = {**program.state_dict, **program.constants}
    try:
        left_out = {name for name, tensor in known.items() if name in own and identity(own[name]) == identity(tensor)}
        text, tensors = encode_program(program, left_out)
        values = safetensors.torch.save(dense_tensors(tensors))
    except (LoweringError, AttributeError, KeyError, ValueError, safetensors.SafetensorError):
        return None
    document = text.encode()
    return b"".join((len(document).to_bytes(_LENGTH_BYTES, "little"), document, values))


def unpack_program(data: bytes, known: Mapping[str, torch.Tensor]) -> ExportedProgram:
    """The program that `pack_program` made bytes of, over the same `known` tensors.

    `data` must be what pack_program returned: it is not checked.
    """
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    document = json.loads(data[_LENGTH_BYTES:end])
    own = safetensors.torch.load(data[end:])
    tensors = {}
    for spec in specs_of(document):
        source = known if spec.supplied else own
        tensor = next(source[name] for name in (spec.name, *spec.aliases) if name in source)
        tensors[spec.name] = as_specified(tensor, spec)
    return decode_program(document, tensors)
