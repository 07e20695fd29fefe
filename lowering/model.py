"""What a model is to the engine: a module, its entry points, and their inputs.

Inputs and dynamic shapes belong to the model; how to lower it belongs to the recipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Method:
    """One entry point of a model.

    `example_inputs` and `example_kwargs` are what the method is traced with. `dynamic_shapes`
    is as torch.export.export takes it; every dynamic dimension needs a bound. `function` names
    the module's Python method, and defaults to the entry point's own name where the module has
    such a method, else to `forward`. `calibration_inputs` are further inputs, on which quantization
    observes the values; without any, it observes the example's.
    """

    example_inputs: tuple[Any, ...]
    example_kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    function: str | None = None
    calibration_inputs: Sequence[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.example_inputs, tuple):
            raise TypeError(f"example_inputs must be a tuple, not {type(self.example_inputs).__name__}")


@dataclass(frozen=True)
class Model:
    """A module and its named entry points."""

    module: torch.nn.Module
    methods: Mapping[str, Method]

    def __post_init__(self) -> None:
        if not self.methods:
            raise ValueError("a Model needs at least one method")
