"""Recipes: how a model is to be lowered, as values. What is lowered is no part of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.export import ExportedProgram

from ..config import EdgeCompileConfig, ExecutorchBackendConfig, Pass
from ..delegation.to_backend import Delegation
from .registry import RecipeType, recipe_registry
from .stage import StageType, check_pipeline

AtenPass = Callable[[str, ExportedProgram], ExportedProgram]
EdgePasses = Callable[[str, ExportedProgram], Sequence[Pass]]
Delegations = Sequence[Delegation]


class Mode(Enum):
    """RELEASE leaves out of the program what only helps to debug it."""

    DEBUG = 1
    RELEASE = 2


@dataclass(frozen=True)
class AOQuantizationConfig:
    """One call of torchao's `quantize_`; `filter_fn(module, fqn)` chooses modules."""

    ao_base_config: Any
    filter_fn: Callable[[torch.nn.Module, str], bool] | None = None


@dataclass(frozen=True)
class QuantizationRecipe:
    """torchao's pt2e quantizers (composed where there are several), and calls of `quantize_`."""

    quantizers: Sequence[Any] | None = None
    ao_quantization_configs: Sequence[AOQuantizationConfig] | None = None

    def get_quantizers(self) -> Sequence[Any] | None:
        """The quantizers, None for none."""
        return self.quantizers


@dataclass(frozen=True)
class LoweringRecipe:
    """How edge programs are transformed and delegated.

    `partitioners` are applied in order to every method, or, as a mapping, each method's own.
    `edge_transform_passes` are asked for the passes of each method; `edge_manager_transform_passes`
    take and return an EdgeProgramManager.
    """

    partitioners: Delegations | Mapping[str, Delegations] | None = None
    edge_transform_passes: Sequence[EdgePasses] | None = None
    edge_manager_transform_passes: Sequence[Callable[[Any], Any]] | None = None
    edge_compile_config: EdgeCompileConfig | None = None


@dataclass(frozen=True)
class ExportRecipe:
    """The whole way from a model to a .pte. Without `pipeline_stages`, those that the model's kind needs.

    `quantization_recipe` is for all methods, or by method name (others are not quantized).
    """

    name: str | None = None
    quantization_recipe: QuantizationRecipe | Mapping[str, QuantizationRecipe] | None = None
    aten_transform_passes: Sequence[AtenPass] | None = None
    lowering_recipe: LoweringRecipe | None = None
    executorch_backend_config: ExecutorchBackendConfig | None = None
    pipeline_stages: Sequence[StageType | str] | None = None
    mode: Mode = Mode.RELEASE
    strict: bool = False

    def __post_init__(self) -> None:
        if self.pipeline_stages is not None:
            check_pipeline(self.pipeline_stages)

    @property
    def starts_with_model(self) -> bool:
        """Whether it says something of what is before the exported program: quantization, tracing, passes."""
        stages = self.pipeline_stages or ()
        before_edge = (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE, StageType.TORCH_EXPORT)
        return bool(self.quantization_recipe or self.aten_transform_passes or self.strict) or any(
            stage in before_edge for stage in stages
        )

    @staticmethod
    def get_recipe(recipe: RecipeType, **options: Any) -> ExportRecipe:
        """The recipe of that type that its backend's provider has. Raises LookupError where it has none."""
        return recipe_registry.create_recipe(recipe, **options)

    @staticmethod
    def combine(recipes: Sequence[ExportRecipe], recipe_name: str | None = None) -> ExportRecipe:
        """One recipe that does what all do, in order: partitioners, passes and quantizers are concatenated.

        Raises:
            ValueError: recipes contradict each other: different configs, pipelines or modes.
        """
        if not recipes:
            raise ValueError("there are no recipes to combine")
        lowerings = [recipe.lowering_recipe for recipe in recipes if recipe.lowering_recipe]
        quantizations = [recipe.quantization_recipe for recipe in recipes if recipe.quantization_recipe]
        return ExportRecipe(
            name=recipe_name or "+".join(recipe.name for recipe in recipes if recipe.name) or None,
            quantization_recipe=_combined_quantization(quantizations),
            aten_transform_passes=_joined(recipe.aten_transform_passes for recipe in recipes),
            lowering_recipe=_combined_lowering(lowerings) if lowerings else None,
            executorch_backend_config=_the_one("executorch_backend_config", recipes),
            pipeline_stages=_the_one("pipeline_stages", recipes),
            mode=_the_one("mode", recipes),
            strict=any(recipe.strict for recipe in recipes),
        )


def _combined_quantization(
    recipes: Sequence[QuantizationRecipe | Mapping[str, QuantizationRecipe]],
) -> QuantizationRecipe | dict[str, QuantizationRecipe] | None:
    by_method = [recipe for recipe in recipes if isinstance(recipe, Mapping)]
    if not recipes or not by_method:
        return _joined_quantization([recipe for recipe in recipes if isinstance(recipe, QuantizationRecipe)])
    if len(by_method) != len(recipes):
        raise ValueError("quantization per method cannot be combined with quantization of all methods")
    return {
        method: _joined_quantization([recipe[method] for recipe in by_method if method in recipe])
        for method in dict.fromkeys(method for recipe in by_method for method in recipe)
    }


def _joined_quantization(recipes: Sequence[QuantizationRecipe]) -> QuantizationRecipe | None:
    if not recipes:
        return None
    return QuantizationRecipe(
        _joined(recipe.quantizers for recipe in recipes), _joined(recipe.ao_quantization_configs for recipe in recipes)
    )


def _combined_lowering(recipes: Sequence[LoweringRecipe]) -> LoweringRecipe:
    if any(isinstance(recipe.partitioners, Mapping) for recipe in recipes):
        partitioners: Any = {}
        for recipe in recipes:
            if recipe.partitioners and not isinstance(recipe.partitioners, Mapping):
                raise ValueError("partitioners per method cannot be combined with partitioners for all methods")
            for method, delegations in (recipe.partitioners or {}).items():
                partitioners[method] = [*partitioners.get(method, ()), *delegations]
    else:
        partitioners = _joined(recipe.partitioners for recipe in recipes)
    return LoweringRecipe(
        partitioners,
        _joined(recipe.edge_transform_passes for recipe in recipes),
        _joined(recipe.edge_manager_transform_passes for recipe in recipes),
        _the_one("edge_compile_config", recipes),
    )


def _joined(lists: Any) -> list[Any] | None:
    items = [item for each in lists for item in each or ()]
    return items or None


def _the_one(field: str, recipes: Sequence[Any]) -> Any:
    """The field's value where recipes that set it agree; two that differ cannot both be meant."""
    default = {each.name: each.default for each in dataclasses.fields(recipes[0])}[field]
    values = [value for recipe in recipes if (value := getattr(recipe, field)) != default]
    for value in values[1:]:
        if value != values[0]:
            raise ValueError(f"recipes that are combined have different {field}: {values[0]!r} and {value!r}")
    return values[0] if values else default
