"""The file of a graph and files of tensors → an ExportedProgram."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._export.verifier import load_verifier
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.utils._sympy.value_ranges import ValueRanges

from ..errors import InvalidFileError, LoweringError
from ..uncompiled import uncompiled_program
from .graph import GraphReader
from .save import FORMAT, VERSION
from .signature import decode_module_calls, decode_signature
from .tensors import TensorFiles, TensorSpec, one_line, resolve


def load_program(
    graph_path: str | os.PathLike[str], tensor_paths: Sequence[str | os.PathLike[str]]
) -> ExportedProgram:
    """Read a program that `save_program` wrote; its tensors are mapped from `tensor_paths`, not copied.

    `tensor_paths` are the file of constants and, where tensors were left out, the checkpoint.

    Raises:
        InvalidFileError: a file is not what it should be; one line that names the file.
        LoweringError: a tensor is in none of the files, or has another shape or dtype there.
    """
    path = Path(graph_path)
    document = _read_document(path)
    files = TensorFiles(tensor_paths)
    try:
        return decode_program(document, resolve(specs_of(document), files))
    except LoweringError:
        raise
    except InvalidFileError as error:
        raise InvalidFileError(f"{path}: {error}") from error
    except Exception as error:  # whatever a malformed file makes torch, sympy or Python say
        raise InvalidFileError(f"{path}: malformed edge program: {type(error).__name__}: {one_line(error)}") from error


def _read_document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"{path}: not an edge program: {one_line(error)}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidFileError(f"{path}: not an edge program: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise InvalidFileError(
            f"{path}: an edge program of version {document.get('version')!r}; this release reads version {VERSION}"
        )
    return document


def specs_of(document: dict[str, Any]) -> list[TensorSpec]:
    """The tensors that a program needs, of the document of its graph."""
    return [TensorSpec.from_data(data) for data in document["tensors"]]


def decode_program(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> ExportedProgram:
    """The program of a document, with the tensors of its specs by name.

    Raises whatever a malformed document makes torch, sympy or Python say.
    """
    reader = GraphReader.over(document["tables"], tensors)
    root, graph = reader.decode(document["graph"])
    signature = decode_signature(document["signature"])
    expression = reader.expressions.expression
    ranges = {
        expression(symbol): ValueRanges(expression(lower), expression(upper))
        for symbol, lower, upper in document["ranges"]
    }
    state_dict, constants = _split(signature, tensors)
    return uncompiled_program(
        root=root,
        graph=graph,
        graph_signature=signature,
        state_dict=state_dict,
        range_constraints=ranges,
        module_call_graph=decode_module_calls(document["module_calls"]),
        constants=constants,
        verifiers=[load_verifier(document["dialect"])],
    )


def _split(
    signature: ExportGraphSignature, tensors: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """State (parameters and persistent buffers) and constants (all else), as ExportedProgram keeps them."""
    state_dict, constants = {}, {}
    for spec in signature.input_specs:
        if spec.target is None:
            continue
        in_state = spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent)
        (state_dict if in_state else constants)[spec.target] = tensors[spec.target]
    return state_dict, constants
