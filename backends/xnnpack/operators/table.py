"""The table itself, and how a call is looked up in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..builder import FLOATS, Builder
from ..graph import Unsupported, Value, same_sizes

# Called with the builder, the fake result, then the operator's arguments, with Values for tensors.
Encoder = Callable[..., Any]

# By operator, or by name where an operator exists only once another library has been imported.
ENCODERS: dict[Any, Encoder] = {}


def operator(*targets: Any) -> Callable[[Encoder], Encoder]:
    """Register the encoder of one or more ATen operators."""

    def register(encoder: Encoder) -> Encoder:
        ENCODERS.update(dict.fromkeys(targets, encoder))
        return encoder

    return register


def encoder_of(target: Any) -> Encoder:
    """What encodes calls of an operator. Raises Unsupported where nothing does."""
    encoder = ENCODERS.get(target) or ENCODERS.get(getattr(target, "name", str)())
    if encoder is None:
        raise Unsupported("XNNPACK has no such operator")
    return encoder


def encode(builder: Builder, encoder: Encoder, val: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Append the nodes for one call; its Value, or a tuple with None for results that XNNPACK cannot give.

    Raises:
        Unsupported: XNNPACK has no nodes for these arguments.
    """
    try:
        result = encoder(builder, val, *args, **kwargs)
    except TypeError as error:  # an argument that the encoder does not name
        raise Unsupported(f"of its arguments ({error})") from error
    single = isinstance(result, Value)
    for made, expected in zip([result] if single else result, [val] if single else val):
        if made is not None:
            check_result(made, expected)
    return result


def check_result(made: Value, expected: torch.Tensor) -> None:
    """Raise Unsupported unless a value is what PyTorch says that it is."""
    if made.quantization is not None and made.quantization.is_dynamic:
        return  # rows of integers with their scales: only products read them
    if expected.is_floating_point() and FLOATS.get(expected.dtype) != made.dtype:
        raise Unsupported(f"it converts {made.dtype.name} to {expected.dtype}")
    if not expected.is_floating_point() and made.quantization is None:
        raise Unsupported(f"XNNPACK has no values of {expected.dtype}")
    if not same_sizes(made.sizes, expected.shape):
        raise Unsupported(f"its result would have the sizes {list(made.sizes)}, not {list(expected.shape)}")
