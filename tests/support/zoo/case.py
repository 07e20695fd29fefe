"""What a model of the zoo consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    """`inputs` are what the module is exported with; `more_inputs` are also run, in order."""

    module: nn.Module
    inputs: tuple[Any, ...]
    more_inputs: tuple[tuple[Any, ...], ...] = field(default=())
    dynamic_shapes: Any = None
    stateful: bool = False  # the module's buffers change as it runs

    def __post_init__(self) -> None:
        self.module.eval()


class Lambda(nn.Module):
    """A module around submodules and a function of (self, *inputs)."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def image(channels: int = 3, size: int = 16, batch: int = 1) -> torch.Tensor:
    """A seeded float image batch [batch, channels, size, size]."""
    return torch.randn(batch, channels, size, size)
