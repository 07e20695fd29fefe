"""Stages say what they may follow; recipes combine where they do not contradict each other."""

from __future__ import annotations

import itertools

import pytest
from rules_executorch.lowering import EdgeCompileConfig, ExecutorchBackendConfig, ExportRecipe, LoweringRecipe, StageType
from rules_executorch.lowering.recipe import BackendRecipeProvider, QuantizationRecipe, RecipeRegistry, RecipeType
from rules_executorch.lowering.recipe.stage import check_pipeline

S = StageType

ALLOWED = {
    (S.SOURCE_TRANSFORM, S.QUANTIZE),
    (S.SOURCE_TRANSFORM, S.TORCH_EXPORT),
    (S.QUANTIZE, S.TORCH_EXPORT),
    (S.TORCH_EXPORT, S.TO_EDGE_TRANSFORM_AND_LOWER),
    (S.TORCH_EXPORT, S.TO_EDGE),
    (S.TO_EDGE, S.EDGE_PROGRAM_MANAGER_TRANSFORM),
    (S.TO_EDGE, S.TO_BACKEND),
    (S.TO_EDGE, S.TO_EXECUTORCH),
    (S.EDGE_PROGRAM_MANAGER_TRANSFORM, S.TO_BACKEND),
    (S.EDGE_PROGRAM_MANAGER_TRANSFORM, S.TO_EXECUTORCH),
    (S.TO_EDGE_TRANSFORM_AND_LOWER, S.TO_EXECUTORCH),
    (S.TO_BACKEND, S.TO_EXECUTORCH),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, S)))
def test_a_stage_follows_only_its_predecessors(before: S, after: S):
    starts = before not in (S.EDGE_PROGRAM_MANAGER_TRANSFORM, S.TO_BACKEND, S.TO_EXECUTORCH)
    if not starts:
        with pytest.raises(ValueError, match=f"stage {before.name} cannot start a pipeline"):
            check_pipeline([before, after])
    elif (before, after) in ALLOWED:
        check_pipeline([before, after])
    else:
        with pytest.raises(ValueError, match=f"Invalid transition from {before.name} to {after.name}"):
            check_pipeline([before, after])


def test_a_recipe_checks_its_pipeline_when_it_is_made():
    with pytest.raises(ValueError, match="cannot start a pipeline"):
        ExportRecipe(pipeline_stages=[S.TO_BACKEND])


def test_recipes_are_combined_in_order():
    first = ExportRecipe("a", QuantizationRecipe(["q"]), lowering_recipe=LoweringRecipe(["p"]), strict=True)
    second = ExportRecipe("b", lowering_recipe=LoweringRecipe(["r"], edge_compile_config=EdgeCompileConfig()))
    combined = ExportRecipe.combine([first, second])
    assert combined.name == "a+b"
    assert combined.lowering_recipe.partitioners == ["p", "r"]
    assert combined.lowering_recipe.edge_compile_config == EdgeCompileConfig()
    assert combined.quantization_recipe.get_quantizers() == ["q"]
    assert combined.strict


def test_recipes_that_contradict_each_other_do_not_combine():
    configs = [ExecutorchBackendConfig(segment_alignment=alignment) for alignment in (128, 256)]
    with pytest.raises(ValueError, match="different executorch_backend_config"):
        ExportRecipe.combine([ExportRecipe(executorch_backend_config=config) for config in configs])


class Recipes(RecipeType):
    FAST = "fast"
    SMALL = "small"

    @classmethod
    def get_backend_name(cls) -> str:
        return "toy"


class Provider(BackendRecipeProvider):
    backend_name = "toy"

    def get_supported_recipes(self):
        return [Recipes.FAST]

    def create_recipe(self, recipe_type, **options):
        return ExportRecipe(f"{recipe_type.value} {options['level']}")


def test_a_backend_provides_recipes_by_name():
    registry = RecipeRegistry()
    registry.register_backend_recipe_provider(Provider())
    assert registry.create_recipe(Recipes.FAST, level=3).name == "fast 3"
    assert registry.list_backends() == ["toy"]
    with pytest.raises(LookupError, match="backend 'toy' has no recipe 'small'"):
        registry.create_recipe(Recipes.SMALL)


def test_a_recipe_of_an_unknown_backend_says_which_are_known():
    with pytest.raises(LookupError, match="no provider of recipes for backend 'toy' is registered"):
        RecipeRegistry().create_recipe(Recipes.FAST)


