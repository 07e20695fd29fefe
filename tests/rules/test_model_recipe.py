"""A model with a recipe, built by the command `build` and compared on the official runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rules_executorch import rules
from support.build_command import build, write_files

pytest.importorskip("torchao")

BUILD_FILE = """
load("@rules_executorch//rules:defs.bzl", "executorch_model", "executorch_test")

py_library(name = "py", srcs = ["net.py", "recipes.py"], deps = ["@rules_executorch//lowering"])

executorch_model(
    name = "m",
    model = "net:make",
    deps = [":py"],
    methods = {"forward": None, "logits": None},
    recipe = "recipes:int8",
    options = {"operators": ["stock", "quantized"]},
)

executorch_test(name = "m_test", model = ":m", atol = "0.1")
"""
NET = """
import torch
from torch import nn
from rules_executorch.lowering.model import Method, Model

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def logits(self, x):
        return self.layers(x)

    def forward(self, x):
        return torch.softmax(self.logits(x), -1)

def make():
    inputs = [(torch.randn(2, 64),) for _ in range(3)]
    return Model(Net().eval(), {name: Method(inputs[0], calibration_inputs=inputs) for name in ("forward", "logits")})
"""
RECIPES = """
import torch
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from rules_executorch.lowering import ExportRecipe, QuantizationRecipe

SPEC = QuantizationSpec(torch.int8, MinMaxObserver, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine)

class Linears(Quantizer):
    def annotate(self, model):
        for node in model.graph.nodes:
            if node.target is torch.ops.aten.linear.default:
                operands = {node.args[0]: SPEC, node.args[1]: SPEC}
                node.meta["quantization_annotation"] = QuantizationAnnotation(operands, _annotated=True)
        return model

    def validate(self, model):
        pass

def int8():
    return ExportRecipe(quantization_recipe={"forward": QuantizationRecipe([Linears()])})
"""


def test_a_recipe_in_a_build_file_quantizes_one_method_and_the_result_agrees_with_pytorch(tmp_path: Path) -> None:
    installed = Path(rules.__file__).parents[1]
    workspace = f'workspace(name = "w")\nlocal_repository(name = "rules_executorch", path = "{installed}")\n'
    files = {"WORKSPACE": workspace, "BUILD": BUILD_FILE, "net.py": NET, "recipes.py": RECIPES}
    root = write_files(tmp_path / "w", files)
    result = build(root, "test", "//:m_test", cache=tmp_path / "cache")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed, 0 failed" in result.stdout
    methods = json.loads((root / "build-out/m.report.json").read_text())["methods"]
    assert "quantized_decomposed::quantize_per_tensor.out" in methods["forward"]["operators"]
    assert methods["logits"]["operators"] == ["aten::linear.out", "aten::relu.out"]
