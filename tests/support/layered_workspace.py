"""A workspace with a model of many equal layers, each of which is a partition of its own: what an edit of one costs.

Its backend is XNNPACK with a partitioner of the workspace's own, as a user would write one.
"""

from __future__ import annotations

from pathlib import Path

from support.build_command import write_files

_WORKSPACE = """
workspace(name = "layered")
local_repository(name = "rules_executorch", path = "{product}")
"""

_BUILD = """
load("@rules_executorch//rules:defs.bzl", "executorch_backend", "executorch_model", "partitioner")

py_library(name = "model_py", srcs = ["model.py"], deps = ["@rules_executorch//lowering"])
py_library(name = "by_layer_py", srcs = ["by_layer.py"], deps = ["@rules_executorch//backends/xnnpack:python"])

executorch_backend(
    name = "by_layer",
    id = "XnnpackBackend",
    deps = [":by_layer_py"],
    module = "by_layer",
    partitioner = "by_layer:LayerPartitioner",
    runtime = ["@rules_executorch//runtime:executorch"],
)

executorch_model(
    name = "model",
    model = "model:make",
    deps = [":model_py"],
    methods = {"forward": partitioner(":by_layer")},
)
"""

_BY_LAYER = '''
"""XNNPACK, one partition for each layer: an edit of one leaves the others as they were compiled."""

import re

from rules_executorch.backends.xnnpack import XnnpackPartitioner
from rules_executorch.lowering.delegation.backend import PartitionResult
from rules_executorch.lowering.delegation.partitioning import tag_constant_data


class LayerPartitioner(XnnpackPartitioner):
    def partition(self, exported_program):
        result = super().partition(exported_program)
        layer, tags = 0, {}
        for node in exported_program.graph.nodes:
            old = node.meta.pop("delegation_tag", None)
            if old is None or node.op != "call_function":
                continue
            places = [place for place, _ in node.meta.get("nn_module_stack", {}).values()]
            found = [int(number) for place in places for number in re.findall(r"layers\\.(\\d+)", place)]
            layer = max(layer, *found, 0)
            node.meta["delegation_tag"] = f"layer {layer}"
            tags[f"layer {layer}"] = result.partition_tags[old]
        tag_constant_data(exported_program, share=True)
        return PartitionResult(exported_program, tags)
'''

_MODEL = """
import torch
from rules_executorch.lowering.model import Method, Model
from torch import nn

LAYERS, WIDTH = {layers}, {width}
ACTIVATIONS = {{}}


def make():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True)
    net = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    for parameter in net.parameters():  # clones start out equal, and equal layers are one content
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    for number, activation in ACTIVATIONS.items():
        net.layers[number].activation = activation
    return Model(net.eval(), {{"forward": Method((torch.randn(1, 64, WIDTH),))}})
"""


def write_layered_workspace(root: Path, product: Path, *, layers: int, width: int) -> Path:
    """Write the workspace; `product` is the folder of @rules_executorch. Its model is //:model. Returns `root`."""
    return write_files(
        root,
        {
            "WORKSPACE": _WORKSPACE.format(product=product),
            "BUILD": _BUILD,
            "by_layer.py": _BY_LAYER,
            "model.py": _MODEL.format(layers=layers, width=width),
        },
    )


def edit_layer(root: Path, number: int) -> None:
    """Give one layer another activation."""
    path = root / "model.py"
    path.write_text(path.read_text().replace("ACTIVATIONS = {}", f"ACTIVATIONS = {{{number}: torch.sigmoid}}"))
