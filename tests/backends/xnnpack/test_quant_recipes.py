"""Every recipe, on every kind of model, on the official runtime."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from rules_executorch.backends.xnnpack import XNNPackRecipeType
from rules_executorch.lowering import ExportRecipe, ExportSession, StageType, export
from torch import nn

from support.official_runtime import run_methods

pytest.importorskip("torchao.quantization")

STATIC = [XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL, XNNPackRecipeType.PT2E_INT8_STATIC_PER_TENSOR]
DYNAMIC = [
    XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL,
    XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL,
    XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR,
]


class Residual(nn.Module):
    def __init__(self, channels: int = 8):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.second(self.first(x)))


def _block(inputs: int, outputs: int, **options: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, bias=False, **options), nn.BatchNorm2d(outputs), nn.ReLU6())


class Inverted(nn.Module):
    """MobileNet's block: wide, depthwise, narrow, and added to what came in."""

    def __init__(self, channels: int):
        super().__init__()
        self.wide = _block(channels, 4 * channels, kernel_size=1)
        self.depthwise = _block(4 * channels, 4 * channels, kernel_size=3, padding=1, groups=4 * channels)
        self.narrow = nn.Sequential(nn.Conv2d(4 * channels, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(self.depthwise(self.wide(x)))


def mobilenet() -> nn.Module:
    stem = _block(3, 8, kernel_size=3, stride=2, padding=1)
    head = [nn.Conv2d(8, 32, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10)]
    return nn.Sequential(stem, Inverted(8), Inverted(8), *head)


def transformer() -> nn.Module:
    return nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(64, 48), (3, 64)),
    "linear_without_bias": (lambda: nn.Linear(64, 48, bias=False), (2, 3, 64)),
    "conv": (lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1), (2, 3, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(8, 16, 3, padding=1, groups=8), (2, 8, 7, 7)),
    "residual": (Residual, (1, 8, 8, 8)),
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)), (4, 64)),
    "transformer": (transformer, (2, 6, 64)),
    "mobilenet": (mobilenet, (1, 3, 32, 32)),
}


def made(name: str) -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    """A model with statistics of its own in its normalisations, and inputs for it."""
    factory, shape = MODELS[name]
    torch.manual_seed(0)
    model = factory()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 2.0)
    return model.eval(), [(torch.randn(shape),) for _ in range(3)]


def lowered(model: nn.Module, inputs: list[tuple[torch.Tensor]], recipe: XNNPackRecipeType, **options: int) -> ExportSession:
    return export(model, inputs, ExportRecipe.get_recipe(recipe, **options))


def reference(session: ExportSession, stage: StageType) -> nn.Module:
    """The model with its quantization simulated in floats."""
    return session.get_stage_artifacts()[stage].data["forward"].module


def left_outside(session: ExportSession) -> list[str]:
    """Operators of the program besides one call of the delegate."""
    graph = session.get_edge_program_manager().exported_program().graph
    targets = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    assert sum("call_delegate" in name.lower() or "calldelegate" in name.lower() for name in targets) == 1
    return [name for name in targets if "delegate" not in name.lower() and "getitem" not in name]


def run(session: ExportSession, inputs: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    calls = [("forward", each) for each in inputs]
    return [outputs[0] for outputs in run_methods(session.get_pte_buffer(), calls)]


def largest_step(graph: torch.fx.Graph) -> float:
    """The largest difference of neighbouring values of any quantized activation."""
    return max(node.args[1] for node in graph.nodes if "quantize_per_tensor" in str(node.target))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("recipe", STATIC, ids=lambda recipe: recipe.value)
def test_static_int8_is_within_a_step_of_the_fake_quantized_model(name: str, recipe: XNNPackRecipeType):
    model, inputs = made(name)
    session = lowered(model, inputs, recipe)
    expected = reference(session, StageType.QUANTIZE)
    step = largest_step(expected.graph)
    assert left_outside(session) == []
    for actual, each in zip(run(session, inputs), inputs):
        torch.testing.assert_close(actual, expected(*each), atol=1.01 * step, rtol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("recipe", DYNAMIC, ids=lambda recipe: recipe.value)
def test_dynamic_recipes_give_what_the_quantized_weights_give(name: str, recipe: XNNPackRecipeType):
    model, inputs = made(name)
    session = lowered(model, inputs, recipe)
    stage = StageType.QUANTIZE if recipe is DYNAMIC[0] else StageType.SOURCE_TRANSFORM
    expected = reference(session, stage)
    assert left_outside(session) == []
    for actual, each in zip(run(session, inputs), inputs):
        wanted = expected(*each)
        torch.testing.assert_close(actual, wanted, atol=0.02 * wanted.abs().max().item(), rtol=0)


def test_the_float_recipe_does_not_quantize():
    model, inputs = made("mobilenet")
    session = lowered(model, inputs, XNNPackRecipeType.FP32)
    assert left_outside(session) == []
    for actual, each in zip(run(session, inputs), inputs):
        torch.testing.assert_close(actual, model(*each), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("recipe", "bits"),
    [(recipe, 8) for recipe in (*STATIC, DYNAMIC[0])] + [(recipe, 4) for recipe in DYNAMIC[1:]],
    ids=lambda value: getattr(value, "value", value),
)
def test_weights_are_stored_in_as_many_bits_as_they_have(recipe: XNNPackRecipeType, bits: int):
    torch.manual_seed(0)
    session = lowered(nn.Linear(512, 512).eval(), [(torch.randn(1, 512),)], recipe)
    groups = 16 if recipe is XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR else 1
    weights = 512 * 512 * bits // 8
    scales = 512 * (2 * groups if groups > 1 else 4)
    assert weights < len(session.get_pte_buffer()) < weights + scales + 12_000


@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_int4_weights_have_groups_of_the_size_asked_for(group_size: int):
    torch.manual_seed(0)
    model, inputs = nn.Linear(256, 64).eval(), [(torch.randn(1, 256),)]
    recipe = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
    session = lowered(model, inputs, recipe, group_size=group_size)
    assert left_outside(session) == []
    (actual,) = run(session, inputs)
    expected = reference(session, StageType.SOURCE_TRANSFORM)(*inputs[0])
    # XNNPACK's scales of groups are of bfloat16: eight bits.
    torch.testing.assert_close(actual, expected, atol=2**-8 * math.sqrt(256) * expected.abs().max().item() / 8, rtol=0)


@pytest.mark.parametrize("group_size", [0, -32, 16, 48])
def test_a_group_size_that_xnnpack_lacks_is_an_error(group_size: int):
    recipe = XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR
    with pytest.raises(ValueError, match=f"multiple of 32, not {group_size}"):
        ExportRecipe.get_recipe(recipe, group_size=group_size)


def test_a_layer_whose_rows_have_no_whole_groups_stays_floats():
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Linear(64, 40), nn.Linear(40, 4)).eval(), [(torch.randn(1, 64),)]
    session = lowered(model, inputs, XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR)
    (actual,) = run(session, inputs)
    expected = reference(session, StageType.SOURCE_TRANSFORM)
    assert torch.equal(expected[1].weight, model[1].weight)
    torch.testing.assert_close(actual, expected(*inputs[0]), atol=0.02, rtol=0)


def test_an_option_that_a_recipe_lacks_is_an_error():
    with pytest.raises(ValueError, match="has no option 'group_size'"):
        ExportRecipe.get_recipe(XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL, group_size=32)


def test_weights_of_int8_are_exact_where_a_row_is_the_whole_input():
    """One row has one scale in XNNPACK as in PyTorch, so that the same integers are multiplied."""
    torch.manual_seed(0)
    model, inputs = nn.Linear(64, 48).eval(), [(torch.randn(1, 64),) for _ in range(4)]
    session = lowered(model, inputs, XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL)
    expected = reference(session, StageType.QUANTIZE)
    for actual, each in zip(run(session, inputs), inputs):
        step = float(each[0].max() - each[0].min()) / 255
        # An element halfway between two integers may be rounded to either.
        torch.testing.assert_close(actual, expected(*each), atol=step * model.weight.abs().max().item(), rtol=0)
