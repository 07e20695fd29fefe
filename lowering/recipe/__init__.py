"""Export recipes: a pipeline of stages from a model to a program, and sessions that run it."""

from __future__ import annotations

from .recipe import AOQuantizationConfig, ExportRecipe, LoweringRecipe, Mode, QuantizationRecipe
from .registry import BackendRecipeProvider, RecipeRegistry, RecipeType, recipe_registry
from .session import ExportSession, export
from .stage import Stage, StageResult, StageType

__all__ = [
    "AOQuantizationConfig",
    "BackendRecipeProvider",
    "ExportRecipe",
    "ExportSession",
    "LoweringRecipe",
    "Mode",
    "QuantizationRecipe",
    "RecipeRegistry",
    "RecipeType",
    "Stage",
    "StageResult",
    "StageType",
    "export",
    "recipe_registry",
]
