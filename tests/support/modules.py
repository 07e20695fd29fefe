"""Modules for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Apply(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)
