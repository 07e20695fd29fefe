"""XNNPACK, ExecuTorch's backend for CPUs; its backend and recipes are registered when this is imported."""

from __future__ import annotations

from rules_executorch.lowering.delegation.backend import register_backend
from rules_executorch.lowering.recipe import recipe_registry

from .partitioner import XnnpackPartitioner
from .precision import Precision
from .preprocess import BACKEND_ID, XnnpackBackend
from .recipes import XnnpackRecipeProvider, XNNPackRecipeType

register_backend(BACKEND_ID, XnnpackBackend)
recipe_registry.register_backend_recipe_provider(XnnpackRecipeProvider())

__all__ = [
    "BACKEND_ID",
    "Precision",
    "XNNPackRecipeType",
    "XnnpackBackend",
    "XnnpackPartitioner",
    "XnnpackRecipeProvider",
]
