"""What each stage of a recipe does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram

from ..config import EdgeCompileConfig
from ..tracing import export_method
from ..model import Model
from ..program import EdgeProgramManager, ExecutorchProgramManager, to_edge, transform_and_lower
from ..transform import transform
from .quantize import quantize, transform_source
from .recipe import ExportRecipe, LoweringRecipe
from .stage import Stage, StageType

Models = Mapping[str, Model]


def build_stages(recipe: ExportRecipe, constant_methods: Mapping[str, Any] | None) -> dict[StageType, Stage]:
    """All stages, each with what it needs of `recipe`."""
    lowering = recipe.lowering_recipe or LoweringRecipe()
    config = lowering.edge_compile_config

    def source_transform(models: Models) -> Models:
        return transform_source(models, recipe.quantization_recipe)

    def quantize_stage(models: Models) -> Models:
        return quantize(models, recipe.quantization_recipe)

    def torch_export(models: Models) -> dict[str, ExportedProgram]:
        programs = {name: export_method(model, name, strict=recipe.strict) for name, model in models.items()}
        for aten_pass in recipe.aten_transform_passes or ():
            programs = {name: aten_pass(name, program) for name, program in programs.items()}
        return programs

    def edge_transform(programs: dict[str, ExportedProgram]) -> dict[str, ExportedProgram]:
        for passes_for in lowering.edge_transform_passes or ():
            programs = {name: transform(program, passes_for(name, program)) for name, program in programs.items()}
        return programs

    def to_edge_stage(programs: Mapping[str, ExportedProgram]) -> EdgeProgramManager:
        edge = to_edge(programs, constant_methods, config)
        return EdgeProgramManager(
            edge_transform({name: edge.exported_program(name) for name in programs}), constant_methods, config
        )

    def lower(programs: Mapping[str, ExportedProgram]) -> EdgeProgramManager:
        return transform_and_lower(
            programs, edge_transform, lowering.partitioners, constant_methods, config or EdgeCompileConfig()
        )

    def manager_transform(manager: EdgeProgramManager) -> EdgeProgramManager:
        for each in lowering.edge_manager_transform_passes or ():
            manager = each(manager)
        return manager

    def to_backend_stage(manager: EdgeProgramManager) -> EdgeProgramManager:
        return manager.to_backend(lowering.partitioners) if lowering.partitioners else manager

    def to_executorch(manager: EdgeProgramManager) -> ExecutorchProgramManager:
        return manager.to_executorch(recipe.executorch_backend_config)

    runs = {
        StageType.SOURCE_TRANSFORM: source_transform,
        StageType.QUANTIZE: quantize_stage,
        StageType.TORCH_EXPORT: torch_export,
        StageType.TO_EDGE: to_edge_stage,
        StageType.TO_EDGE_TRANSFORM_AND_LOWER: lower,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: manager_transform,
        StageType.TO_BACKEND: to_backend_stage,
        StageType.TO_EXECUTORCH: to_executorch,
    }
    return {kind: Stage(kind, run) for kind, run in runs.items()}
