"""Models as users' factories make them, and a checkpoint's weights in the place of theirs."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
import torch

from ..errors import InvalidFileError, LoweringError
from ..model import Model
from .names import call_user, import_named


def make_model(factory: str) -> Model:
    """What "module:factory" returns. A factory that draws its initial weights draws the same ones in every run.

    Raises:
        LoweringError: there is no such factory, it fails, or it returns something else.
    """
    torch.manual_seed(0)
    model = call_user(import_named(factory, "the model's factory"), factory)
    if not isinstance(model, Model):
        raise LoweringError(
            f"{factory} returned a {type(model).__name__}",
            remedies=["return rules_executorch.lowering.Model(module, {name: Method(example_inputs)})"],
        )
    return model


def load_weights(module: torch.nn.Module, checkpoint: Path) -> None:
    """Give `module` the tensors of a .safetensors file; of tied weights, one of their names is enough.

    Raises:
        LoweringError: the file lacks a tensor of the module's state dict, or has one of another shape.
        InvalidFileError: it cannot be read, or is not a safetensors file.
    """
    try:
        missing, _ = safetensors.torch.load_model(module, checkpoint, strict=False)
    except safetensors.SafetensorError as error:
        raise InvalidFileError(f"{checkpoint}: not a safetensors file: {error}") from None
    except OSError as error:
        raise InvalidFileError(f"{checkpoint}: cannot be read: {error}") from None
    except RuntimeError as error:
        raise LoweringError(f"the checkpoint {checkpoint} does not fit {type(module).__name__}: {error}") from None
    if missing:
        raise LoweringError(f"the checkpoint {checkpoint} lacks {min(missing)!r} of {type(module).__name__}")
