"""`export`: one method of a model → the files of its graph and of its constants."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import InvalidFileError, LoweringError, did_you_mean
from ..interchange import load_pt2, save_program
from ..interchange.tensors import identity
from ..interchange.values import DTYPE_NAMES
from ..tracing import export_method
from .factories import make_model

# Safetensors' names of dtypes differ from torch's.
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--model", required=True, help="MODULE:FACTORY that makes a Model, or a FILE.pt2")
    parser.add_argument("--method", required=True, help="the method to export")
    parser.add_argument("--graph", required=True, type=Path, help="where the graph goes")
    parser.add_argument("--constants", required=True, type=Path, help="where tensors go that no checkpoint supplies")
    parser.add_argument(
        "--checkpoint-names",
        type=Path,
        help='JSON {name: {"dtype": …, "shape": …}}: the tensors that a checkpoint supplies at lowering',
    )


def run(arguments: argparse.Namespace) -> None:
    """Export. Raises LoweringError and InvalidFileError."""
    supplied = _checkpoint(arguments.checkpoint_names) if arguments.checkpoint_names else {}
    if arguments.model.endswith(".pt2"):
        program = load_pt2(arguments.model)
        state = program.state_dict
    else:
        model = make_model(arguments.model)
        program = export_method(model, arguments.method)
        state = model.module.state_dict()
    if arguments.checkpoint_names:
        _check_checkpoint(state, supplied, arguments.model)
    save_program(program, arguments.graph, arguments.constants, leave_out=supplied.keys())


def _checkpoint(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        supplied = json.loads(path.read_bytes())
        if all(entry.keys() == {"dtype", "shape"} for entry in supplied.values()):
            return supplied
    except (ValueError, AttributeError, RecursionError):
        pass
    raise InvalidFileError(f"{path}: not a JSON object of {{name: {{dtype, shape}}}}")


def _check_checkpoint(
    state: Mapping[str, torch.Tensor], supplied: Mapping[str, Mapping[str, Any]], model: str
) -> None:
    """Raise LoweringError unless the checkpoint has every tensor of the model's state dict, as it is there.

    Of tied weights, one of their names is enough. Further tensors in the checkpoint do not matter.
    """
    present = {identity(tensor) for name, tensor in state.items() if name in supplied}
    defects = []
    for name, tensor in state.items():
        if name in supplied:
            entry = supplied[name]
            dtype = _DTYPES.get(entry["dtype"], entry["dtype"])
            if (dtype, list(entry["shape"])) != (DTYPE_NAMES[tensor.dtype], list(tensor.shape)):
                wanted = f"{DTYPE_NAMES[tensor.dtype]}{list(tensor.shape)}"
                defects.append(f"{name!r} is {dtype}{entry['shape']}, but {wanted} in the model")
        elif identity(tensor) not in present:
            defects.append(f"{name!r} is missing{did_you_mean(name, supplied)}")
    if defects:
        raise LoweringError(
            f"the checkpoint does not fit {model}:\n  " + "\n  ".join(f"tensor {defect}" for defect in defects[:8]),
            remedies=["save the checkpoint with safetensors.torch.save_model(module, path)"],
        )
