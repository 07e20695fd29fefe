"""The delegate's blobs, read with the schema that the official runtime comes with: what is written is what is read."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rules_executorch.backends.xnnpack import XNNPackRecipeType as Recipe
from rules_executorch.backends.xnnpack.graph import Graph, Node
from rules_executorch.backends.xnnpack.schema import ITEM_BYTES, KINDS, DataType
from rules_executorch.lowering import ExportRecipe, export
from rules_executorch.lowering.format.read import read_pte
from support.xnnpack import graphs_written, lower, module
from torch import nn
from torch.export import Dim

NO_VALUE, BY_KEY = 2**32 - 1, 2**64 - 1
WHEEL = find_spec("executorch")
pytestmark = pytest.mark.skipif(WHEEL is None, reason="the official runtime is not installed")


def wheel(path: str) -> Path:
    assert WHEEL is not None and WHEEL.submodule_search_locations
    return Path(next(iter(WHEEL.submodule_search_locations))) / path


def read(blob: bytes, folder: Path) -> dict[str, Any]:
    """The flatbuffer of a blob as JSON, by flatc, with every default written out."""
    magic, length, start, size, data = struct.unpack_from("<4x4sHIII", blob)
    assert (magic, length, start) == (b"XH00", 30, 32) and data % 16 == 0
    assert start + size <= data == len(blob)
    file = folder / "graph.bin"
    file.write_bytes(blob[start : start + size])
    schema = wheel("backends/xnnpack/serialization/schema.fbs")
    command = [wheel("data/bin/flatc"), "--json", "--strict-json", "--defaults-json", "-o", folder, schema, "--", file]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads(re.sub(r": (-?)inf\b", r": \1Infinity", (folder / "graph.json").read_text()))


def image(model: Callable[[torch.Tensor], torch.Tensor], *, last: bool = False, batch: bool = False) -> Any:
    def make() -> tuple[bytes, list[Graph]]:
        x = torch.randn(2, 4, 8, 8)
        dims = {"dynamic_shapes": ({0: Dim("batch", min=1, max=4)},)} if batch else {}
        x = x.to(memory_format=torch.channels_last) if last else x
        with graphs_written() as graphs:
            manager = lower(module(model), (x,), **dims)
        return manager.to_executorch().buffer, graphs

    return make


def recipe(kind: Recipe, model: Callable[[], nn.Module], *shape: int) -> Any:
    def make() -> tuple[bytes, list[Graph]]:
        pytest.importorskip("torchao.quantization")
        with graphs_written() as graphs:
            session = export(model().eval(), [(torch.randn(shape),)], ExportRecipe.get_recipe(kind))
        return session.get_pte_buffer(), graphs

    return make


torch.manual_seed(0)
CONV, DEPTHWISE, UP = nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, groups=8), nn.ConvTranspose2d(8, 4, 3)
MODELS: dict[str, Callable[[], tuple[bytes, list[Graph]]]] = {
    "images": image(lambda x: UP(F.relu6(DEPTHWISE(CONV(x))))),
    "images, channels-last": image(lambda x: F.avg_pool2d(F.max_pool2d(CONV(x), 2), 2), last=True),
    "resized": image(lambda x: F.interpolate(F.pad(x, (1, 0, 2, 0)), (5, 6), mode="bilinear", align_corners=True)),
    "moved": image(lambda x: torch.cat([x[:, i : i + 1].permute(0, 2, 3, 1) for i in (3, 1, 2, 0, 1)], 3)),
    "of slopes": image(lambda x: F.leaky_relu(F.elu(x, 0.5), 0.25)),
    "batches": image(lambda x: torch.softmax(x.flatten(1), 1).view(-1, 4, 8, 8) @ x, batch=True),
    "two outputs": image(lambda x: (x.exp(), x.exp(), x.mean((2, 3)))),
    "int8": recipe(Recipe.PT2E_INT8_STATIC_PER_CHANNEL, lambda: nn.Sequential(CONV, nn.ReLU(), UP), 2, 4, 8, 8),
    "int8 per tensor": recipe(Recipe.PT2E_INT8_STATIC_PER_TENSOR, lambda: nn.Linear(8, 6), 2, 8),
    "dynamic int8": recipe(Recipe.PT2E_INT8_DYNAMIC_PER_CHANNEL, lambda: nn.Linear(32, 6), 2, 32),
    "int4": recipe(Recipe.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL, lambda: nn.Linear(32, 6), 2, 32),
    "int4 in groups": recipe(Recipe.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR, lambda: nn.Linear(64, 6), 2, 64),
}  # fmt: skip


@pytest.fixture(params=MODELS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Graph, dict[str, Any]]]:
    """A program file, the graph of its only partition, and what flatc reads of that."""
    pte, (graph,) = MODELS[request.param]()
    file = read_pte(pte)
    (delegate,) = file.program.execution_plan[0].delegates
    yield file, graph, read(bytes(file.delegate_blob(delegate)), tmp_path)


def test_a_blob_is_a_sound_graph_that_says_what_was_meant(written: Any) -> None:
    file, graph, found = written
    values = [value_of(each) for each in found["xvalues"]]
    by_id = {tensor["id_out"]: (tensor, quantization) for tensor, quantization in values}
    assert len(by_id) == len(values), "every tensor has an id of its own"
    check_externals(graph, found, by_id)
    check_constants(file, found, by_id)
    check_nodes(graph, found, by_id)


def value_of(value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A value's tensor, and its quantization with its kind as "type"."""
    inner = value["xvalue_union"]
    if value["xvalue_union_type"] == "XNNTensorValue":
        return inner, None
    return inner["tensor_value"], {"type": inner["quant_params_type"], **inner["quant_params"]}


def check_externals(graph: Graph, found: dict[str, Any], by_id: dict[int, Any]) -> None:
    """Inputs, then outputs, are numbered by their place among the call's arguments, and flagged."""
    wanted = [(i, 1) for i, value in enumerate(graph.inputs) if value is not None]
    wanted += [(len(graph.inputs) + i, 2) for i in range(len(graph.outputs))]
    ids = external_ids(found)
    assert [(by_id[i][0]["external_id"], by_id[i][0]["flags"]) for i in ids] == wanted
    assert found["num_externs"] == len(graph.inputs) + len(graph.outputs)
    others = [tensor for i, (tensor, _) in by_id.items() if i not in ids]
    assert all((tensor["external_id"], tensor["flags"]) == (NO_VALUE, 0) for tensor in others)


def check_constants(file: Any, found: dict[str, Any], by_id: dict[int, Any]) -> None:
    """Constants are found by key, each key once, and have as many bytes as their type and sizes say."""
    first, *entries = found["constant_data"]
    assert "named_key" not in first
    keys = [entry["named_key"] for entry in entries]
    assert len(set(keys)) == len(keys) and all(entry["offset"] == BY_KEY for entry in entries)
    used = set()
    for tensor, quantization in by_id.values():
        assert tensor["num_dims"] == len(tensor["dims"])
        if index := tensor["constant_buffer_idx"]:
            used.add(index)
            assert len(file.named_data(keys[index - 1])) == stored_bytes(datatype(tensor), tensor["dims"])
        if quantization and "scale_buffer_idx" in quantization:
            index, count = quantization["scale_buffer_idx"], quantization["num_scales"]
            used.add(index)
            item = 2 if quantization["type"] == "PerChannelGroupQuant" else 4
            assert len(file.named_data(keys[index - 1])) == item * count
            groups = tensor["dims"][1] // quantization["group_size"] if item == 2 else 1
            assert count == tensor["dims"][quantization["channel_dim"]] * groups
    assert used == set(range(1, len(keys) + 1)), "nothing is stored that is not used"


def stored_bytes(dtype: DataType, dims: list[int]) -> int:
    if dtype in (DataType.QCINT4, DataType.QBINT4):
        return math.prod(dims[:-1]) * -(-dims[-1] // 2)
    return math.prod(dims) * ITEM_BYTES[dtype]


def check_nodes(graph: Graph, found: dict[str, Any], by_id: dict[int, Any]) -> None:
    """Nodes are of the kinds that were meant, on values that are there by then, with attributes in the right fields."""
    there = {i for i, (tensor, _) in by_id.items() if tensor["flags"] == 1 or tensor["constant_buffer_idx"]}
    ids = dict(zip((value for value in (*graph.inputs, *graph.outputs) if value is not None), external_ids(found)))
    assert len(found["xnodes"]) == len(graph.nodes)
    for node, each in zip(graph.nodes, found["xnodes"]):
        assert each["xnode_union_type"].lower() == f"xnn{node.kind}".lower()
        payload = each["xnode_union"]
        operands = [value for value in node.operands if value is not None]
        reads = [payload[name] for name in payload if is_operand(name) and payload[name] != NO_VALUE]
        assert reads == [ids.setdefault(value, i) for value, i in zip(operands, reads, strict=True)]
        assert there.issuperset(reads), "what is read has been made"
        made = payload["output_id"]
        assert made not in there and made == ids.setdefault(node.result, made), "and nothing is made twice"
        there.add(made)
        bounds = each.get("output_min_max", {"output_min": -math.inf, "output_max": math.inf})
        assert {"output_min": node.low, "output_max": node.high} == pytest.approx(bounds)
        check_attributes(node, payload)
    assert there == set(by_id) == set(ids.values()) and len(ids) == len(by_id), "each tensor is one value of the graph"
    for value, i in ids.items():
        tensor, quantization = by_id[i]
        assert (datatype(tensor), tensor["num_dims"]) == (value.dtype, value.rank)
        assert (quantization is None) == (value.quantization is None)
        if quantization is not None and quantization["type"] == "PerTensorQuant":
            assert quantization["scale"] == pytest.approx(value.quantization.scale, abs=1e-6)  # flatc prints six digits
            assert quantization["zero_point"] == value.quantization.zero_point


def external_ids(found: dict[str, Any]) -> list[int]:
    return [*found["input_ids"], *found["output_ids"]]


def datatype(tensor: dict[str, Any]) -> DataType:
    return DataType[tensor["datatype"].removeprefix("xnn_datatype_").upper().replace("FP", "FLOAT")]


def is_operand(name: str) -> bool:
    return name.endswith("_id") and not name.startswith("output")


# Fields that have one name for us, and several in the schema.
NAMES = {"alpha": ("alpha", "negative_slope")}


def check_attributes(node: Node, payload: dict[str, Any]) -> None:
    known = {slot.name for slot in KINDS[node.kind].slots}
    for name, value in node.attributes.items():
        assert name in known
        (found,) = [payload[field] for field in NAMES.get(name, (name,)) if field in payload]
        assert found == (list(value) if isinstance(value, tuple) else pytest.approx(value)), name
