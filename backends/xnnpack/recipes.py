"""Recipes by the field's names: how a model is quantized, if at all, and delegated to XNNPACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rules_executorch.lowering.recipe import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
)

from .partitioner import XnnpackPartitioner
from .precision import Precision


class XNNPackRecipeType(RecipeType):
    """What can be asked for."""

    FP32 = "fp32"
    PT2E_INT8_DYNAMIC_PER_CHANNEL = "pt2e_int8_dynamic_per_channel"
    PT2E_INT8_STATIC_PER_CHANNEL = "pt2e_int8_static_per_channel"
    PT2E_INT8_STATIC_PER_TENSOR = "pt2e_int8_static_per_tensor"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL = "torchao_int8_dynamic_act_int4_weight_per_channel"
    TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR = "torchao_int8_dynamic_act_int4_weight_per_tensor"

    @classmethod
    def get_backend_name(cls) -> str:
        return "xnnpack"


_PT2E = {
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL: {"per_channel": True, "dynamic": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL: {"per_channel": True},
    XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR: {"per_channel": False},
}


class XnnpackRecipeProvider(BackendRecipeProvider):
    """Makes XNNPACK's recipes; those that quantize need torchao."""

    @property
    def backend_name(self) -> str:
        return "xnnpack"

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        return list(XNNPackRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **options: Any) -> ExportRecipe | None:
        """The recipe. int4 weights have a scale for each row, or for each `group_size` (32) numbers of a row.

        With `precisions`, only operators that compute in these are delegated; by default, all that XNNPACK has.
        Layers whose rows are no multiple of `group_size` stay floats.

        Raises:
            ValueError: an option that the recipe does not have, or a group size that XNNPACK does not.
        """
        precisions = options.pop("precisions", tuple(Precision))
        groups = recipe_type is XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
        group_size = options.pop("group_size", 32) if groups else None
        if options:
            raise ValueError(f"recipe {recipe_type.value} has no option {sorted(options)[0]!r}")
        if group_size is not None and (group_size <= 0 or group_size % 32):
            raise ValueError(f"group_size must be a multiple of 32, not {group_size}")
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=_quantization(recipe_type, group_size),
            lowering_recipe=LoweringRecipe(partitioners=[XnnpackPartitioner(precisions=precisions)]),
        )


def _quantization(recipe_type: RecipeType, group_size: int | None) -> QuantizationRecipe | None:
    if recipe_type is XNNPackRecipeType.FP32:
        return None
    if recipe_type in _PT2E:
        from .quantizer import XnnpackQuantizationConfig, XnnpackQuantizer

        return QuantizationRecipe(quantizers=[XnnpackQuantizer(XnnpackQuantizationConfig(**_PT2E[recipe_type]))])
    import torch
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerAxis, PerGroup

    granularity = PerAxis(0) if group_size is None else PerGroup(group_size)
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=granularity)
    def has_groups(module: torch.nn.Module, name: str) -> bool:
        if isinstance(module, torch.nn.modules.linear.NonDynamicallyQuantizableLinear):
            return False  # attention reads its weight by itself
        return isinstance(module, torch.nn.Linear) and module.in_features % (group_size or 1) == 0

    return QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(config, has_groups)])
