"""The file of a graph and files of tensors → an ExportedProgram."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    program = open_program(graph_path, tensor_paths)
    assert program.graph is not None  # which decodes it
    return program


def open_program(
    graph_path: str | os.PathLike[str], tensor_paths: Sequence[str | os.PathLike[str]]
) -> ExportedProgram:
    """What `load_program` gives, with its tensors; the rest is decoded when it is first asked for.

    Until then the program costs next to nothing, and what is known by its tensors needs no more.

    Raises:
        InvalidFileError: as load_program; of a malformed graph when that is decoded.
        LoweringError: as load_program.
    """
    path = Path(graph_path)
    document = _read_document(path)
    files = TensorFiles(tensor_paths)
    with _errors_name(path):
        tensors = resolve(specs_of(document), files)
        return _Undecoded(path, document, tensors)


class _Undecoded(ExportedProgram):
    """A program with its tensors, which becomes a whole ExportedProgram when something else of it is asked for."""

    def __init__(self, path: Path, document: dict[str, Any], tensors: dict[str, torch.Tensor]):
        self._state_dict, self._constants = _split(decode_signature(document["signature"]), tensors)
        self._rest = (path, document, tensors)

    def __getattr__(self, name: str) -> Any:
        """Python asks this for what is not there yet."""
        if name.startswith("__"):  # what copying and pickling look for
            raise AttributeError(name)
        path, document, tensors = self._rest
        with _errors_name(path):
            decoded = decode_program(document, tensors)
        vars(self).clear()
        vars(self).update(vars(decoded))
        self.__class__ = ExportedProgram
        return getattr(self, name)


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Errors of malformed contents as InvalidFileError with the file's name."""
    try:
        yield
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
