"""Quantized operators, one kind at a time: integers are computed with, and give what simulated quantization gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rules_executorch.backends.xnnpack import Precision, XnnpackPartitioner, preprocess
from rules_executorch.backends.xnnpack.graph import Graph
from rules_executorch.backends.xnnpack.schema import DataType
from rules_executorch.lowering import (
    EdgeCompileConfig,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    StageType,
    export,
    to_edge,
)
from rules_executorch.lowering.operators import quantized as kernels
from rules_executorch.lowering.operators import stock
from torch import nn

from support.official_runtime import run_methods

pytest.importorskip("torchao.quantization.pt2e")

from rules_executorch.backends.xnnpack.quantizer import XnnpackQuantizationConfig, XnnpackQuantizer  # noqa: E402

INTEGERS = (DataType.QINT8, DataType.QDINT8)


class Between(nn.Module):
    """A function between two layers, where its operands and its result are quantized."""

    def __init__(self, function: Callable[..., torch.Tensor], before: nn.Module, after: nn.Module):
        super().__init__()
        self.function, self.before, self.after = function, before, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.function(self.before(x)))


def between_images(function: Callable[..., torch.Tensor], channels: int = 4) -> tuple[nn.Module, tuple[int, ...]]:
    return Between(function, nn.Conv2d(3, 4, 1), nn.Conv2d(channels, 4, 1)), (1, 3, 8, 8)


def between_rows(function: Callable[..., torch.Tensor], width: int = 16) -> tuple[nn.Module, tuple[int, ...]]:
    return Between(function, nn.Linear(16, 16), nn.Linear(width, 8)), (2, 3, 16)


def sequence(*layers: nn.Module, of: tuple[int, ...]) -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(*layers), of


# The kinds of node that must compute with integers, and a model that has them.
WITH_INTEGERS: dict[str, tuple[set[str], Callable[[], tuple[nn.Module, tuple[int, ...]]]]] = {
    "linear": ({"FullyConnected"}, lambda: sequence(nn.Linear(16, 8), of=(3, 16))),
    "conv": ({"Conv2d"}, lambda: sequence(nn.Conv2d(3, 8, 3, stride=2, padding=1), of=(2, 3, 9, 9))),
    "conv of groups": ({"Conv2d"}, lambda: sequence(nn.Conv2d(4, 8, 3, groups=2), of=(1, 4, 6, 6))),
    "conv of one dimension": ({"Conv2d"}, lambda: sequence(nn.Conv1d(4, 6, 3), nn.ReLU(), of=(2, 4, 9))),
    "depthwise": ({"DepthwiseConv2d"}, lambda: sequence(nn.Conv2d(4, 8, 3, groups=4), of=(1, 4, 6, 6))),
    "transposed": ({"ConvTranspose2d"}, lambda: sequence(nn.ConvTranspose2d(4, 6, 3, stride=2), of=(1, 4, 5, 5))),
    "transposed of groups": (
        {"ConvTranspose2d"}, lambda: sequence(nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), of=(1, 4, 5, 5)),
    ),
    "add": ({"Add"}, lambda: between_rows(lambda x: x + x.reshape(2, 3, 16))),
    "subtract": ({"Subtract"}, lambda: between_rows(lambda x: x - x.reshape(2, 3, 16))),
    "multiply": ({"Multiply"}, lambda: between_rows(lambda x: x * x.reshape(2, 3, 16))),
    "square": ({"Multiply"}, lambda: between_rows(lambda x: x * x)),
    "broadcast": ({"Add"}, lambda: between_rows(lambda x: x + x[:, :1])),
    "cat": ({"Concatenate2"}, lambda: between_images(lambda x: torch.cat([x, x], 1), 8)),
    "max pool": ({"MaxPooling2d"}, lambda: between_images(lambda x: F.max_pool2d(x, 2))),
    "mean": ({"GlobalAvgPooling2d"}, lambda: between_images(lambda x: x.mean((2, 3), keepdim=True))),
    "mean without its dimensions": (
        {"GlobalAvgPooling2d"}, lambda: (Between(lambda x: x.mean((2, 3)), nn.Conv2d(3, 4, 1), nn.Linear(4, 4)), (1, 3, 8, 8)),
    ),  # fmt: skip
    "resize": ({"StaticResizeBilinear2D"}, lambda: between_images(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))),
    "pad": ({"StaticConstantPad"}, lambda: between_images(lambda x: F.pad(x, (1, 0, 2, 1)))),
    "sigmoid": ({"Sigmoid"}, lambda: between_rows(torch.sigmoid)),
    "tanh": ({"Tanh"}, lambda: between_rows(torch.tanh)),
    "hardswish": ({"Hardswish"}, lambda: between_images(F.hardswish)),
    "elu": ({"ELU"}, lambda: between_rows(F.elu)),
    "leaky relu": ({"LeakyReLU"}, lambda: between_rows(F.leaky_relu)),
    "views": (
        {"StaticReshape", "StaticTranspose", "StaticSlice"},
        lambda: between_rows(lambda x: x.view(2, 3, 4, 4).permute(0, 2, 1, 3)[:, 1:].reshape(2, -1), 36),
    ),
}


def quantized(model: nn.Module, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, **config: bool) -> tuple[Any, Any, list[Graph]]:
    """The session, inputs, and the graphs that were written."""
    graphs: list[Graph] = []
    optimized = preprocess.optimized

    def recorded(graph: Graph) -> Graph:
        graphs.append(optimized(graph))
        return graphs[-1]

    monkeypatch.setattr(preprocess, "optimized", recorded)
    inputs = [(torch.randn(shape),) for _ in range(3)]
    recipe = ExportRecipe(
        quantization_recipe=QuantizationRecipe([XnnpackQuantizer(XnnpackQuantizationConfig(**config))]),
        lowering_recipe=LoweringRecipe([XnnpackPartitioner()]),
    )
    return export(model.eval(), inputs, recipe), inputs, graphs


def compare(session: Any, inputs: Any, tolerance: float | None = None) -> None:
    """Against simulated quantization: within a step of its result, or `tolerance`."""
    expected = session.get_stage_artifacts()[StageType.QUANTIZE].data["forward"].module
    steps = [node.args[1] for node in expected.graph.nodes if "quantize_per_tensor" in str(node.target)]
    results = run_methods(session.get_pte_buffer(), [("forward", each) for each in inputs])
    for outputs, each in zip(results, inputs):
        wanted = expected(*each)
        for actual, result in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,)):
            torch.testing.assert_close(actual, result, atol=tolerance or 1.01 * max(steps), rtol=0)


@pytest.mark.parametrize("name", WITH_INTEGERS)
def test_a_kind_of_node_computes_with_integers(name: str, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    kinds, make = WITH_INTEGERS[name]
    session, inputs, (graph,) = quantized(*make(), monkeypatch)
    found = {node.kind for node in graph.nodes if node.operands[0].dtype in INTEGERS and node.kind != "Convert"}
    assert kinds <= found
    assert [node.kind for node in graph.nodes].count("Convert") == 2  # of the input, and of the output
    compare(session, inputs)


def test_a_kind_without_integers_computes_with_floats(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    session, inputs, (graph,) = quantized(*between_images(lambda x: F.avg_pool2d(x, 2)), monkeypatch)
    assert [node.operands[0].dtype for node in graph.nodes if node.kind == "AvgPooling2d"] == [DataType.FLOAT32]
    compare(session, inputs)


def test_an_activation_is_a_bound_of_the_node_before_it(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(), nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
    session, inputs, (graph,) = quantized(model, (1, 3, 8, 8), monkeypatch)
    bounds = [(node.low, node.high) for node in graph.nodes if node.kind == "Conv2d"]
    assert bounds == [(0.0, 6.0), (0.0, float("inf"))]
    assert "Clamp" not in [node.kind for node in graph.nodes]
    compare(session, inputs)


class Torn(nn.Module):
    """An operator that XNNPACK lacks between quantized layers, some of which could be computed before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.a(x))
        w = self.b(y) + self.c(torch.cumsum(y + self.d(x), -1))
        return self.d(torch.tanh(w)) + self.c(y), y


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_an_operator_between_tears_no_quantization_apart(dynamic: bool, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    session, inputs, graphs = quantized(Torn(), (1, 32), monkeypatch, dynamic=dynamic)
    left = [n.target for n in session.get_edge_program_manager().exported_program().graph.nodes if n.op == "call_function"]
    assert [target for target in left if isinstance(target, torch._ops.OpOverload)] == [torch.ops.aten.cumsum.default]
    products = [node for graph in graphs for node in graph.nodes if node.kind == "FullyConnected"]
    assert len(products) == 6
    assert {node.operands[0].dtype for node in products} == {DataType.QDINT8 if dynamic else DataType.QINT8}
    compare(session, inputs, 0.05 if dynamic else None)


@pytest.mark.parametrize("kernel", [(1, 0), (3, 1)], ids=["pointwise", "3x3"])
@pytest.mark.parametrize("other", [(1, 0), (3, 1)], ids=["pointwise", "3x3"])
def test_dynamic_convolutions_may_share_their_input(
    kernel: tuple[int, int], other: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    torch.manual_seed(0)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Conv2d(3, 8, size, padding=padding) for size, padding in (kernel, other))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x) - self.b(x)

    session, inputs, (graph,) = quantized(Both(), (1, 3, 8, 8), monkeypatch, dynamic=True)
    products = [node.operands[0].dtype for node in graph.nodes if node.kind in ("Conv2d", "FullyConnected")]
    assert products == [DataType.QDINT8] * 2
    compare(session, inputs, 0.05)


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_dynamic_convolution_of_one_dimension_is_one_of_two(kernel: int, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    session, inputs, (graph,) = quantized(nn.Conv1d(4, 6, kernel), (2, 4, 9), monkeypatch, dynamic=True)
    products = {node.operands[0].dtype for node in graph.nodes if node.kind in ("Conv2d", "FullyConnected")}
    assert products == {DataType.QDINT8}
    compare(session, inputs, 0.05)


def test_products_of_one_tensor_share_its_dynamic_quantization(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    session, inputs, (graph,) = quantized(
        Between(lambda x: x, nn.Identity(), _Three()), (1, 16), monkeypatch, dynamic=True
    )  # fmt: skip
    assert [node.kind for node in graph.nodes].count("Convert") == 1
    compare(session, inputs, 0.05)


class _Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x) + self.layers[1](x) - self.layers[2](x)


def test_depthwise_convolutions_are_not_quantized_dynamically(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    session, inputs, (graph,) = quantized(nn.Conv2d(4, 4, 3, groups=4), (1, 4, 8, 8), monkeypatch, dynamic=True)
    assert {value.dtype for node in graph.nodes for value in node.operands} == {DataType.FLOAT32}
    compare(session, inputs, 1e-5)


def test_nodes_that_are_not_accepted_stay_floats(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    quantizer = XnnpackQuantizer(accepts=lambda node: node.meta["val"].shape[-1] != 4)
    recipe = ExportRecipe(
        quantization_recipe=QuantizationRecipe([quantizer]), lowering_recipe=LoweringRecipe([XnnpackPartitioner()])
    )
    inputs = [(torch.randn(2, 8),)]
    session = export(model.eval(), inputs, recipe)
    targets = [str(n.target) for n in session.get_exported_program().graph.nodes if n.op == "call_function"]
    assert targets == [
        "quantized_decomposed.dequantize_per_channel.default", "quantized_decomposed.quantize_per_tensor.default",
        "quantized_decomposed.dequantize_per_tensor.default", "aten.linear.default",
        "quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.default",
        "aten.linear.default",
    ]  # fmt: skip
    compare(session, inputs)


@pytest.mark.parametrize(
    ("dynamic", "precision", "taken"),
    [
        (False, Precision.STATIC_QUANT, {"linear", "relu", "quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_channel"}),
        (False, Precision.FP32, {"native_layer_norm"}),
        (False, Precision.DYNAMIC_QUANT, set()),
        (True, Precision.DYNAMIC_QUANT,
         {"linear", "choose_qparams", "quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_channel"}),
        (True, Precision.FP32, {"native_layer_norm", "relu"}),
        (True, Precision.STATIC_QUANT, set()),
    ],
)  # fmt: skip
def test_only_operators_of_the_precisions_asked_for_are_taken(dynamic: bool, precision: Precision, taken: set[str]):
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    config = XnnpackQuantizationConfig(dynamic=dynamic)
    recipe = ExportRecipe(
        quantization_recipe=QuantizationRecipe([XnnpackQuantizer(config)]),
        pipeline_stages=[StageType.SOURCE_TRANSFORM, StageType.QUANTIZE, StageType.TORCH_EXPORT],
    )
    program = export(model.eval(), [(torch.randn(2, 8),)], recipe).get_exported_program()
    edge = to_edge(program, compile_config=EdgeCompileConfig(operators=stock | kernels)).exported_program()
    XnnpackPartitioner(precisions=[precision], cost_rule=False).partition(edge)
    calls = [node for node in edge.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    assert {n.target._opname for n in calls if "delegation_tag" in n.meta} == taken
    assert all("not to be taken" in n.meta["left_behind"] for n in calls if "delegation_tag" not in n.meta)
