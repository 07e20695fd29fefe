"""torch.export's own archives (.pt2) as a source of programs, refused where reading them would run their code.

`torch.export.load` unpickles what is stored as pickle, and evaluates symbolic sizes as Python. So an
archive is looked through first: nothing in it may need the full unpickler, and sizes may be sums,
products and the known functions of symbols only.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram

from ..errors import InvalidFileError
from .expressions import FUNCTION_NAMES
from .tensors import one_line

_SYMBOL_NAME = re.compile(r"'[a-z]{1,4}\d+'")
_SIZE = re.compile(r"[\w\s+\-*/%(),.<>=!&|~]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_WORDS = FUNCTION_NAMES | {
    "Symbol", "Integer", "Float", "positive", "nonnegative", "negative", "integer", "real", "finite", "precision",
    "True", "False", "int_oo", "oo", "Infinity", "NegativeInfinity", "IntInfinity", "NegativeIntInfinity",
    "BooleanTrue", "BooleanFalse", "true", "false",
}  # fmt: skip


def load_pt2(path: str | os.PathLike[str]) -> ExportedProgram:
    """Read the program of a .pt2 archive.

    Raises:
        InvalidFileError: it is not such an archive, or could run code of its own when it is read.
    """
    path = os.fspath(path)
    try:
        _check(path)
        with _silent(logging.getLogger("torch.export")):
            program = torch.export.load(path)
    except (FileNotFoundError, InvalidFileError):
        raise
    except Exception as error:  # whatever a malformed archive makes zipfile, json or torch say
        raise InvalidFileError(f"{path}: not a .pt2 archive: {type(error).__name__}: {one_line(error)}") from error
    # Guards are Python text that running the program would compile; bounds are in range_constraints too.
    program._guards_code = []
    return program


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Without what torch logs before it raises: the traceback of a first attempt."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _check(path: str) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                for key, value in _pairs(json.loads(archive.read(name))):
                    _check_pair(f"{path}: {name}", key, value)
            elif "/sample_inputs/" in name:
                _check_inputs(f"{path}: {name}", archive.read(name))


def _check_pair(where: str, key: str, value: Any) -> None:
    if key == "use_pickle" and value:
        raise InvalidFileError(f"{where}: a tensor or object is stored as pickle, which could run code")
    if key == "expr_str" and not _is_size(value):
        raise InvalidFileError(f"{where}: {value!r} is no symbolic size")
    if key == "range_constraints" and not all(map(_is_size, value)):
        raise InvalidFileError(f"{where}: a bound is of something that is no symbolic size")
    if isinstance(value, str) and "__enum__" in value:
        raise InvalidFileError(f"{where}: the inputs' structure names a class to import")


def _check_inputs(where: str, content: bytes) -> None:
    try:
        if content:
            torch.load(io.BytesIO(content), weights_only=True)
    except Exception as error:
        raise InvalidFileError(f"{where}: example inputs are stored as objects, which could run code") from error


def _is_size(text: Any) -> bool:
    """Whether evaluating `text` can do nothing but build an expression of symbols and numbers, and that soon."""
    if not isinstance(text, str) or len(text) > 10_000:
        return False
    text = _SYMBOL_NAME.sub("0", text)  # no other quoted text is left in a size
    words = _WORD.findall(text)
    if not _SIZE.fullmatch(text) or re.search(r"\.\s*[A-Za-z_]", text):
        return False
    if not all(word in _WORDS or re.fullmatch(r"[a-z]{1,4}\d+", word) for word in words):
        return False
    # torch writes a power as a function; one of small numbers is all that a size has.
    powers = sum("Pow" in word or "Shift" in word for word in words)
    return "**" not in text and (powers == 0 or (powers == 1 and not re.search(r"\d{3}", text)))


def _pairs(data: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every object in a document, with its value."""
    pending = [data]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value.items()
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
