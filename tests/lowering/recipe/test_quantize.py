"""Quantized models, by both of torchao's ways, on the official runtime."""

from __future__ import annotations

import pytest
import torch
from rules_executorch.lowering import (
    AOQuantizationConfig,
    EdgeCompileConfig,
    ExportRecipe,
    ExportSession,
    LoweringError,
    LoweringRecipe,
    Method,
    Model,
    QuantizationRecipe,
    StageType,
    export,
)
from rules_executorch.lowering.operators import quantized, stock
from torch import nn

from support.official_runtime import run_method

torchao = pytest.importorskip("torchao.quantization")
pt2e = pytest.importorskip("torchao.quantization.pt2e")
quantizer = pytest.importorskip("torchao.quantization.pt2e.quantizer")

WITH_QUANTIZED = EdgeCompileConfig(operators=stock | quantized)
KERNELS = ["executorch.kernels.quantized"]


class Int8(quantizer.Quantizer):
    """Weights of linear and convolution per channel, their inputs per tensor, both of them int8 and observed."""

    inputs = quantizer.QuantizationSpec(
        torch.int8, pt2e.MinMaxObserver, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine
    )
    weights = quantizer.QuantizationSpec(
        torch.int8, pt2e.PerChannelMinMaxObserver, quant_min=-127, quant_max=127,
        qscheme=torch.per_channel_symmetric, ch_axis=0,
    )  # fmt: skip

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        for node in model.graph.nodes:
            if node.target in (torch.ops.aten.linear.default, torch.ops.aten.conv2d.default):
                specs = {node.args[0]: self.inputs, node.args[1]: self.weights}
                node.meta["quantization_annotation"] = quantizer.QuantizationAnnotation(specs, _annotated=True)
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        pass


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x)).mean((2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.features(x))


def images(count: int) -> list[tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return [(torch.randn(1, 3, 8, 8),) for _ in range(count)]


def static_recipe(**changes: object) -> ExportRecipe:
    return ExportRecipe(
        quantization_recipe=QuantizationRecipe([Int8()]),
        lowering_recipe=LoweringRecipe(edge_compile_config=WITH_QUANTIZED),
        **changes,  # type: ignore[arg-type]
    )


def test_a_statically_quantized_model_gives_what_its_quantized_graph_gives():
    net, inputs = Net().eval(), images(5)
    session = export(net, inputs, static_recipe())
    quantized_graph = session.get_stage_artifacts()[StageType.QUANTIZE].data["forward"].module
    for each in inputs:
        (actual,) = run_method(session.get_pte_buffer(), each, modules=KERNELS)
        torch.testing.assert_close(actual, quantized_graph(*each), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(actual, net(*each), atol=0.05, rtol=0.05)
    (by_session,) = session.run_method("forward", inputs[-1])  # which loads the quantized kernels by itself
    torch.testing.assert_close(by_session, actual)


def test_weights_are_stored_as_they_were_quantized():
    wide = nn.Linear(512, 512)
    session = export(wide, [(torch.randn(1, 512),)], static_recipe())
    assert len(session.get_pte_buffer()) < 1.1 * 512 * 512


def test_quantized_operators_are_refused_where_the_target_lacks_them_and_the_remedy_works():
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe([Int8()]))
    with pytest.raises(LoweringError, match=r"no kernel for quantized_decomposed\.") as caught:
        export(Net().eval(), images(1), recipe)
    assert "EdgeCompileConfig(operators=stock | quantized)" in str(caught.value)
    assert "test_quantize.py" in str(caught.value)  # the model's line


def test_one_method_is_quantized_and_another_is_not():
    net, inputs = Net().eval(), images(3)
    recipe = ExportRecipe(
        quantization_recipe={"forward": QuantizationRecipe([Int8()])},
        lowering_recipe=LoweringRecipe(edge_compile_config=WITH_QUANTIZED),
    )
    methods = {"forward": Method(inputs[0], calibration_inputs=inputs), "features": Method(inputs[0])}
    pte = export(Model(net, methods), export_recipe=recipe).get_pte_buffer()
    (features,) = run_method(pte, inputs[1], "features", modules=KERNELS)
    torch.testing.assert_close(features, net.features(*inputs[1]))
    (whole,) = run_method(pte, inputs[1], modules=KERNELS)
    assert 0 < (whole - net(*inputs[1])).abs().max() < 0.05


def test_a_recipe_for_a_method_that_does_not_exist_is_an_error():
    recipe = ExportRecipe(quantization_recipe={"forwrad": QuantizationRecipe([Int8()])})
    with pytest.raises(LoweringError, match="method 'forwrad', which does not exist; did you mean 'forward'"):
        export(Net(), images(1), recipe)


@pytest.mark.parametrize(
    ("config", "tolerance"),
    [
        (torchao.Int8WeightOnlyConfig(), 0.02),
        (torchao.IntxWeightOnlyConfig(torch.int4, torchao.granularity.PerGroup(32)), 0.2),
        (torchao.Int8DynamicActivationIntxWeightConfig(torch.int4, torchao.granularity.PerGroup(32)), 0.2),
        (torchao.Int8DynamicActivationInt8WeightConfig(), 0.05),
    ],
    ids=["int8_weights", "int4_weights_by_group", "int8_dynamic_int4_weights", "int8_dynamic_int8_weights"],
)
def test_weights_quantized_in_eager_need_no_kernels_beyond_the_stock_runtimes(config: object, tolerance: float):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(config)]))
    x = torch.randn(4, 128)
    session = export(net, [(x,)], recipe)
    (actual,) = run_method(session.get_pte_buffer(), [x])
    torch.testing.assert_close(actual, net(x), atol=tolerance, rtol=0)
    assert len(session.get_pte_buffer()) < 0.5 * 4 * sum(p.numel() for p in net.parameters()) + 8192


def test_a_model_that_is_one_layer_is_quantized_in_eager():
    net = nn.Linear(64, 64).eval()
    config = AOQuantizationConfig(torchao.Int8WeightOnlyConfig())
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(ao_quantization_configs=[config]))
    x = torch.randn(1, 64)
    (actual,) = run_method(export(net, [(x,)], recipe).get_pte_buffer(), [x])
    torch.testing.assert_close(actual, net(x), atol=0.02, rtol=0)


def test_methods_that_share_a_module_share_its_quantized_weights():
    net = nn.Sequential(nn.Linear(256, 256, bias=False))
    config = AOQuantizationConfig(torchao.Int8WeightOnlyConfig())
    recipe = ExportRecipe(quantization_recipe=QuantizationRecipe(ao_quantization_configs=[config]))
    model = Model(net, {"one": Method((torch.randn(1, 256),)), "three": Method((torch.randn(3, 256),))})
    assert len(export(model, export_recipe=recipe).get_pte_buffer()) < 1.5 * 256 * 256


@pytest.mark.parametrize(
    ("recipe", "with_model"),
    [
        (ExportRecipe(), False),
        (ExportRecipe(lowering_recipe=LoweringRecipe(edge_compile_config=WITH_QUANTIZED)), False),
        (ExportRecipe(pipeline_stages=[StageType.TO_EDGE, StageType.TO_EXECUTORCH]), False),
        (ExportRecipe(pipeline_stages=[StageType.TORCH_EXPORT, StageType.TO_EDGE]), True),
        (static_recipe(), True),
        (ExportRecipe(strict=True), True),
        (ExportRecipe(aten_transform_passes=[lambda method, program: program]), True),
    ],
)
def test_what_is_before_the_exported_program_makes_a_recipe_begin_with_the_model(recipe: ExportRecipe, with_model: bool):
    assert recipe.starts_with_model is with_model


def test_quantization_by_method_is_combined_by_method():
    config = AOQuantizationConfig(torchao.Int8WeightOnlyConfig())
    by_method = ExportRecipe(quantization_recipe={"a": QuantizationRecipe([1]), "b": QuantizationRecipe([2])})
    more = ExportRecipe(quantization_recipe={"a": QuantizationRecipe([3], [config])})
    combined = ExportRecipe.combine([by_method, more]).quantization_recipe
    assert combined == {"a": QuantizationRecipe([1, 3], [config]), "b": QuantizationRecipe([2])}
    with pytest.raises(ValueError, match="per method cannot be combined"):
        ExportRecipe.combine([by_method, ExportRecipe(quantization_recipe=QuantizationRecipe([4]))])


def test_a_session_that_quantizes_leaves_the_model_as_it_was():
    net = Net().eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    ExportSession(net, images(2), static_recipe()).export()
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("persistent", [True, False])
def test_calibration_leaves_the_state_of_the_program_where_the_model_starts(persistent: bool):
    class Counting(Net):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(5), persistent=persistent)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return self.out(self.features(x))[0] * 0 + self.seen

    net, inputs = Counting().eval(), images(3)
    session = export(net, inputs, static_recipe())
    (first,) = run_method(session.get_pte_buffer(), inputs[0], modules=KERNELS)
    assert torch.equal(first, torch.ones(5))
    assert torch.equal(net.seen, torch.zeros(5))
