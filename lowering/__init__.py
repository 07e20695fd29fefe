"""The lowering engine: nn.Module → .pte, importable and useful without the builder.

The names are those of `executorch.exir` and `executorch.export`. They are imported when they are
first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import EdgeCompileConfig, ExecutorchBackendConfig, MemoryPlanningPass
    from .delegation.backend import (
        BackendDetails,
        CompileSpec,
        DelegationSpec,
        Partitioner,
        PartitionResult,
        PreprocessResult,
        register_backend,
    )
    from .delegation.delegation_info import get_delegation_info
    from .delegation.lowered_module import LoweredBackendModule
    from .delegation.named_data import NamedDataStore, NamedDataStoreOutput
    from .delegation.partitioning import tag_constant_data, tag_mutated_buffer
    from .delegation.to_backend import MethodProgramsPartitionerSpec, to_backend
    from .errors import InvalidFileError, LoweringError
    from .interchange import load_program, load_pt2, save_program
    from .model import Method, Model
    from .program import EdgeProgramManager, ExecutorchProgramManager, to_edge, to_edge_transform_and_lower
    from .recipe import (
        AOQuantizationConfig,
        BackendRecipeProvider,
        ExportRecipe,
        ExportSession,
        LoweringRecipe,
        QuantizationRecipe,
        RecipeType,
        StageType,
        export,
        recipe_registry,
    )
    from .tracing import export_method

_HOME = {
    "AOQuantizationConfig": "recipe",
    "BackendDetails": "delegation.backend",
    "BackendRecipeProvider": "recipe",
    "CompileSpec": "delegation.backend",
    "DelegationSpec": "delegation.backend",
    "EdgeCompileConfig": "config",
    "EdgeProgramManager": "program",
    "ExecutorchBackendConfig": "config",
    "ExecutorchProgramManager": "program",
    "ExportRecipe": "recipe",
    "ExportSession": "recipe",
    "InvalidFileError": "errors",
    "LoweredBackendModule": "delegation.lowered_module",
    "LoweringError": "errors",
    "LoweringRecipe": "recipe",
    "MemoryPlanningPass": "config",
    "Method": "model",
    "MethodProgramsPartitionerSpec": "delegation.to_backend",
    "Model": "model",
    "NamedDataStore": "delegation.named_data",
    "NamedDataStoreOutput": "delegation.named_data",
    "PartitionResult": "delegation.backend",
    "Partitioner": "delegation.backend",
    "PreprocessResult": "delegation.backend",
    "QuantizationRecipe": "recipe",
    "RecipeType": "recipe",
    "StageType": "recipe",
    "export": "recipe",
    "export_method": "tracing",
    "get_delegation_info": "delegation.delegation_info",
    "load_program": "interchange",
    "load_pt2": "interchange",
    "recipe_registry": "recipe",
    "register_backend": "delegation.backend",
    "save_program": "interchange",
    "tag_constant_data": "delegation.partitioning",
    "tag_mutated_buffer": "delegation.partitioning",
    "to_backend": "delegation.to_backend",
    "to_edge": "program",
    "to_edge_transform_and_lower": "program",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
