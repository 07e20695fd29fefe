"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.batch_norm.default)
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """The variant that says in its schema what it does."""
    if not training:
        return aten._native_batch_norm_legit_no_training.default(
            input, weight, bias, running_mean, running_var, momentum, eps
        )[0]
    if running_mean is None:
        return aten._native_batch_norm_legit.no_stats(input, weight, bias, True, momentum, eps)[0]
    return aten._native_batch_norm_legit.default(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )[0]
