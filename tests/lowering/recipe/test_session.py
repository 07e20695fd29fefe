"""Sessions take models through a recipe's stages and hand out what each made."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rules_executorch.lowering import (
    EdgeProgramManager,
    ExportRecipe,
    ExportSession,
    LoweringError,
    LoweringRecipe,
    Method,
    Model,
    QuantizationRecipe,
    StageType,
)
from rules_executorch.lowering.recipe import AOQuantizationConfig, Stage, export
from torch import nn
from torch.fx.passes.infra.pass_base import PassResult

from support.official_runtime import run_methods


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))

    def half(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x)


X = torch.randn(3, 32)


def runs(session: ExportSession, *inputs: torch.Tensor, method: str = "forward") -> torch.Tensor:
    return run_methods(session.get_pte_buffer(), [(method, list(inputs) or [X])])[0][0]


def relu_to_tanh(module: torch.fx.GraphModule) -> PassResult:
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.tanh.default
    return PassResult(module, True)


def test_a_module_goes_through_the_default_stages():
    net = Net()
    session = export(net, [(X,)])
    torch.testing.assert_close(runs(session), net(X))
    artifacts = session.get_stage_artifacts()
    assert list(artifacts) == [
        StageType.SOURCE_TRANSFORM,
        StageType.QUANTIZE,
        StageType.TORCH_EXPORT,
        StageType.TO_EDGE_TRANSFORM_AND_LOWER,
        StageType.TO_EXECUTORCH,
    ]
    assert all(artifact.seconds >= 0 for artifact in artifacts.values())


def test_several_methods_of_one_model():
    net = Net()
    session = export(Model(net, {"forward": Method((X,)), "half": Method((X,))}), constant_methods={"width": 32})
    torch.testing.assert_close(runs(session, method="half"), net.first(X))
    assert session.get_executorch_program_manager().methods == {"forward", "half"}
    assert run_methods(session.get_pte_buffer(), [("width", [])])[0] == [32]


def test_several_modules_with_inputs_of_their_own():
    nets = {"a": Net(), "b": nn.Linear(2, 2)}
    size = torch.export.Dim("size", min=1, max=8)
    inputs = {"a": [(X,)], "b": [(torch.zeros(3, 2),)]}
    session = export(nets, inputs, dynamic_shapes={"b": ({0: size},)})
    torch.testing.assert_close(runs(session, method="a"), nets["a"](X))
    y = torch.randn(5, 2)
    torch.testing.assert_close(runs(session, y, method="b"), nets["b"](y))


def test_an_exported_program_skips_what_it_has_behind_it(tmp_path: Path):
    net = Net()
    program = torch.export.export(net, (X,))
    session = export(program)
    assert list(session.get_stage_artifacts())[0] == StageType.TO_EDGE_TRANSFORM_AND_LOWER
    assert session.get_exported_program() is program
    torch.export.save(program, tmp_path / "net.pt2")
    torch.testing.assert_close(runs(export(tmp_path / "net.pt2")), net(X))


def test_the_longer_pipeline_gives_the_same_bytes():
    stages = [StageType.TORCH_EXPORT, StageType.TO_EDGE, StageType.TO_BACKEND, StageType.TO_EXECUTORCH]
    net = Net()
    longer = export(net, [(X,)], ExportRecipe(pipeline_stages=stages))
    assert longer.get_pte_buffer() == export(net, [(X,)]).get_pte_buffer()


@pytest.mark.parametrize("stages", [None, [StageType.TORCH_EXPORT, StageType.TO_EDGE, StageType.TO_EXECUTORCH]])
def test_passes_on_aten_and_edge_programs(stages: list[StageType] | None):
    seen = []

    def aten_pass(method: str, program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
        seen.append(method)
        return program

    net = Net()
    recipe = ExportRecipe(
        aten_transform_passes=[aten_pass],
        lowering_recipe=LoweringRecipe(edge_transform_passes=[lambda method, program: [relu_to_tanh]]),
        pipeline_stages=stages,
    )
    session = export(net, [(X,)], recipe)
    torch.testing.assert_close(runs(session), net.second(torch.tanh(net.first(X))))
    assert seen == ["forward"]


def test_passes_on_managers():
    net = Net()
    recipe = ExportRecipe(
        lowering_recipe=LoweringRecipe(
            edge_manager_transform_passes=[lambda manager: manager.transform([relu_to_tanh])]
        ),
        pipeline_stages=[
            StageType.TORCH_EXPORT,
            StageType.TO_EDGE,
            StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
            StageType.TO_EXECUTORCH,
        ],
    )
    torch.testing.assert_close(runs(export(net, [(X,)], recipe)), net.second(torch.tanh(net.first(X))))


def test_a_stage_of_ones_own():
    recipe = ExportRecipe(
        pipeline_stages=[StageType.TORCH_EXPORT, StageType.TO_EDGE, "count", StageType.TO_EXECUTORCH]
    )
    counted = []

    def count(manager: EdgeProgramManager) -> EdgeProgramManager:
        counted.append(len(manager.methods))
        return manager

    session = ExportSession(Net(), [(X,)], recipe)
    with pytest.raises(LoweringError, match="stage 'count' of the pipeline is not registered"):
        session.export()
    session.register_stage("count", Stage("count", count))
    session.export()
    assert counted == [1]


def test_asking_for_what_has_not_been_made_says_which_stage_makes_it():
    session = ExportSession(Net(), [(X,)])
    with pytest.raises(RuntimeError, match="TO_EXECUTORCH has not run"):
        session.get_pte_buffer()
    with pytest.raises(RuntimeError, match="TORCH_EXPORT has not run"):
        session.get_exported_program()


def test_example_inputs_are_needed_where_a_module_is_traced():
    with pytest.raises(LoweringError, match="no example inputs of method 'forward'"):
        ExportSession(Net())


def test_the_program_is_saved(tmp_path: Path):
    session = export(Net(), [(X,)], name="net", artifact_dir=tmp_path / "made")
    assert (tmp_path / "made" / "net.pte").read_bytes() == session.get_pte_buffer()
    session.save_to_pte(tmp_path / "again")
    assert (tmp_path / "again.pte").exists()


def test_a_method_runs_on_the_runtime_of_this_machine():
    net = Net()
    (actual,) = export(net, [(X,)]).run_method("forward")
    torch.testing.assert_close(actual, net(X))


def test_delegation_is_printed_per_method(capsys: pytest.CaptureFixture[str]):
    export(Net(), [(X,)]).print_delegation_info()
    text = capsys.readouterr().out
    assert "method forward\ndelegated subgraphs: 0" in text and "linear" in text


def test_quantized_modules_are_copies():
    torchao = pytest.importorskip("torchao.quantization")
    net = Net()
    config = AOQuantizationConfig(torchao.Int8WeightOnlyConfig())
    recipe = ExportRecipe(
        quantization_recipe=QuantizationRecipe(ao_quantization_configs=[config]),
        pipeline_stages=[StageType.SOURCE_TRANSFORM, StageType.TORCH_EXPORT],
    )
    program = export(net, [(X,)], recipe).get_exported_program()
    assert any(tensor.dtype == torch.int8 for tensor in (*program.state_dict.values(), *program.constants.values()))
    assert net.first.weight.dtype == torch.float32


def test_pt2e_quantization_observes_all_calibration_inputs():
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e import MinMaxObserver
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

    class LinearInputs(Quantizer):
        """Quantizes the inputs of linear, with a range that is observed."""

        def annotate(self, model):
            spec = QuantizationSpec(
                torch.int8, MinMaxObserver, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine
            )
            for node in model.graph.nodes:
                if node.target is torch.ops.aten.linear.default:
                    node.meta["quantization_annotation"] = QuantizationAnnotation({node.args[0]: spec}, _annotated=True)
            return model

        def validate(self, model):
            pass

    recipe = ExportRecipe(
        quantization_recipe=QuantizationRecipe([LinearInputs()]),
        pipeline_stages=[StageType.QUANTIZE, StageType.TORCH_EXPORT],
    )
    inputs = [(torch.zeros(1, 2),), (torch.tensor([[-1.0, 254.0]]),)]
    program = export(nn.Linear(2, 2), inputs, recipe).get_exported_program()
    (quantize,) = [node for node in program.graph.nodes if ".quantize_per_tensor" in str(node.target)]
    assert quantize.args[1] == pytest.approx(1.0, rel=0.01)  # the range [-1, 254] in 256 steps
