"""Every kind of node that the delegate has, in each type and class of shapes, on the official runtime against eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the operators of quantization)
import torch.nn.functional as F
from rules_executorch.backends import xnnpack
from rules_executorch.backends.xnnpack.schema import KINDS, DataType
from support.xnnpack import check, graphs_written, info, module
from torch import nn
from torch.export import Dim

SHAPES = ((), (5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 2, 2), (1, 2, 1, 2, 3, 2))
MATRICES = ((3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 2, 2), (1, 2, 1, 2, 3, 2))
IMAGES = ((1, 4, 6, 6), (2, 4, 7, 8), (3, 4, 9, 6))
PAIRS = (
    ((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((2, 3, 4, 5), (3, 1, 1)), ((1,), (2, 3)), ((), (3, 2)),
    ((2, 4, 3, 5), (2, 1, 3, 1)), ((1, 2, 1, 2, 1), (2, 1, 3, 1, 2)),
)  # fmt: skip
# Kinds that the delegate knows and that nothing is encoded as; backends/xnnpack/README.md says why.
UNUSED = {"ArgMaxPooling2d", "SDPA"}


Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function that becomes a kind of node, the shapes of its operands, one tuple a class, and what is special.

    `integers` are the types of integers in which it is computed, `positive` asks for such inputs, and in the class
    `growing` the first dimension is dynamic.
    """

    function: Function
    shapes: Sequence[tuple[tuple[int, ...], ...]]
    integers: tuple[torch.dtype, ...] = ()
    positive: bool = False
    growing: tuple[tuple[int, ...], ...] | None = None

    @property
    def grows(self) -> tuple[tuple[int, ...], ...]:
        """A class of shapes with a batch of two."""
        return self.growing or next(shapes for shapes in self.shapes if all(shape[:1] == (2,) for shape in shapes))


INT8, BYTES = (torch.int8,), (torch.int8, torch.uint8)


def of(function: Function, shapes: Sequence[tuple[int, ...]], *integers: torch.dtype, **more: Any) -> Case:
    """A case of one operand."""
    return Case(function, [(shape,) for shape in shapes], integers, **more)


def of_two(function: Function, *integers: torch.dtype) -> Case:
    return Case(function, PAIRS, integers, growing=((2, 3, 4), (2, 1, 4)))


def joined(count: int) -> Case:
    def function(*parts: torch.Tensor) -> torch.Tensor:
        return torch.cat(parts, -1 if parts[0].dim() != 4 else 1)

    return Case(function, [(shape,) * count for shape in SHAPES[1:]], BYTES)


torch.manual_seed(0)
LINEAR, BARE = nn.Linear(4, 6), nn.Linear(4, 6, bias=False)
CASES: dict[str, Case] = {
    "Add": of_two(torch.add, *BYTES), "Subtract": of_two(torch.sub, *BYTES), "Multiply": of_two(torch.mul, *BYTES),
    "Div": of_two(torch.div), "Maximum": of_two(torch.maximum), "Minimum": of_two(torch.minimum),
    "Abs": of(torch.abs, SHAPES), "Ceiling": of(torch.ceil, SHAPES), "Cos": of(torch.cos, SHAPES),
    "Exp": of(torch.exp, SHAPES), "Floor": of(torch.floor, SHAPES), "Gelu": of(F.gelu, SHAPES),
    "Negate": of(torch.neg, SHAPES), "Sin": of(torch.sin, SHAPES), "Square": of(torch.square, SHAPES),
    "Log": of(torch.log, SHAPES, positive=True), "SquareRoot": of(torch.sqrt, SHAPES, positive=True),
    "ReciprocalSquareRoot": of(torch.rsqrt, SHAPES, positive=True),
    "Clamp": of(lambda x: x.clamp(-0.5, 0.75), SHAPES, *BYTES), "ELU": of(F.elu, SHAPES, *INT8),
    "Hardswish": of(F.hardswish, SHAPES, *BYTES), "LeakyReLU": of(lambda x: F.leaky_relu(x, 0.2), SHAPES, *BYTES),
    "Sigmoid": of(torch.sigmoid, SHAPES, *BYTES), "Tanh": of(torch.tanh, SHAPES, *BYTES),
    "PReLU": of(nn.PReLU(init=0.1), MATRICES), "Softmax": of(lambda x: torch.softmax(x, -1), SHAPES[1:]),
    "FullyConnected": of(LINEAR, ((4,), (3, 4), (2, 3, 4), (2, 3, 2, 4), (2, 1, 3, 2, 4)), *INT8),
    "BatchMatrixMultiply": Case(torch.matmul, [
        ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (2, 3, 4, 5)),
        ((2, 1, 2, 3, 4), (1, 2, 1, 4, 2)),
    ], growing=((2, 3, 4), (2, 4, 5))),
    "Conv2d": of(nn.Conv2d(4, 6, 3, 2, 1), (*IMAGES, (4, 7, 8)), *INT8),
    "DepthwiseConv2d": of(nn.Conv2d(4, 8, 3, padding=1, groups=4), IMAGES, *INT8),
    "ConvTranspose2d": of(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), IMAGES, *INT8),
    "MaxPooling2d": of(lambda x: F.max_pool2d(x, 3, 2, 1), (*IMAGES, (4, 7, 8)), *BYTES),
    "AvgPooling2d": of(lambda x: F.avg_pool2d(x, 2), (*IMAGES, (4, 7, 8))),
    "GlobalAvgPooling2d": of(lambda x: x.mean((2, 3), keepdim=True), IMAGES, *BYTES),
    "StaticResizeBilinear2D": of(lambda x: F.interpolate(x, (9, 5), mode="bilinear"), IMAGES, *BYTES),
    "StaticConstantPad": of(lambda x: F.pad(x, (1, 2), value=0.0), SHAPES[1:], *BYTES),
    "StaticReshape": of(lambda x: x.flatten(1), MATRICES[1:], *BYTES),
    "StaticTranspose": of(lambda x: x.transpose(-1, -2), MATRICES, *BYTES, growing=((2, 3, 4, 5),)),
    "StaticSlice": of(lambda x: x[..., 1:], SHAPES[1:], *BYTES),
    "Concatenate2": joined(2), "Concatenate3": joined(3), "Concatenate4": joined(4), "Concatenate5": joined(5),
    "Convert": of(lambda x: x.float() if x.dtype == torch.half else x.half(), SHAPES),
    "Copy": of(lambda x: (x.exp(), x.exp()), SHAPES),
}  # fmt: skip


def test_every_kind_of_the_delegate_is_written_or_has_a_reason_not_to_be() -> None:
    assert set(CASES) == set(KINDS) - UNUSED
    numbers = {kind.number for kind in KINDS.values()}
    assert numbers | {36} == set(range(1, 48)) and 36 not in numbers  # 36 is SDPA, which the runtime does not run
    readme = Path(xnnpack.__file__).with_name("README.md").read_text()
    assert all(f"`{kind}`" in readme for kind in UNUSED)


def operands(case: Case, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    tensors = [torch.randn(shape) for shape in shapes]
    return [(tensor.abs() + 0.5 if case.positive else tensor).to(dtype) for tensor in tensors]


def each_class(case: Case, dtype: torch.dtype) -> tuple[nn.Module, list[torch.Tensor]]:
    """One program of all classes of shapes, images also channels-last; in halves, its weights are halves."""
    classes = [operands(case, shapes, dtype) for shapes in case.shapes]
    images = [tensors for tensors in classes if all(x.dim() == 4 for x in tensors)]
    classes += [[x.to(memory_format=torch.channels_last) for x in tensors] for tensors in images]
    count = len(case.shapes[0])
    function = case.function.to(dtype) if isinstance(case.function, nn.Module) else case.function

    def apply(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(*tensors[i : i + count]) for i in range(0, len(tensors), count))

    return module(apply), [tensor for each in classes for tensor in each]


def written(graphs: Sequence[Any], kind: str, dtype: DataType) -> int:
    """How many nodes of a kind there are on operands of a type."""
    return sum(node.kind == kind and node.operands[0].dtype == dtype for graph in graphs for node in graph.nodes)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float", "half"])
def test_floats_of_every_class_of_shapes(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    case = CASES[kind]
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    model, inputs = each_class(case, dtype)
    with graphs_written() as graphs:
        check(model, inputs, rtol=tolerance, atol=tolerance, whole=False)
    expected = DataType.FLOAT32 if dtype == torch.float32 else DataType.FLOAT16
    assert written(graphs, kind, expected) >= len(inputs) // len(case.shapes[0])
    if isinstance(case.function, nn.Module):
        case.function.float()


@pytest.mark.parametrize("kind", CASES)
def test_batches_that_grow_and_shrink(kind: str) -> None:
    torch.manual_seed(0)
    case = CASES[kind]
    calls = [operands(case, [(batch, *shape[1:]) for shape in case.grows]) for batch in (2, 1, 7)]
    sizes = tuple({0: Dim("batch", min=1, max=8)} for _ in case.grows)
    with graphs_written() as graphs:
        check(module(case.function), *map(tuple, calls), dynamic_shapes=sizes)
    assert written(graphs, kind, DataType.FLOAT32) >= 1


OPS = torch.ops.quantized_decomposed
RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


def step_of(values: torch.Tensor, dtype: torch.dtype) -> tuple[float, int]:
    """Scale and zero point of integers that cover these values and zero."""
    low, high = min(values.min().item(), 0.0), max(values.max().item(), 0.0)
    scale = max((high - low) / 255, 2**-12)
    least, most = RANGES[dtype]
    return scale, max(least, min(most, round(least - low / scale)))


def rounded(x: torch.Tensor, step: tuple[float, int], dtype: torch.dtype) -> torch.Tensor:
    """Quantized and dequantized."""
    how = (*step, *RANGES[dtype], dtype)
    return OPS.dequantize_per_tensor(OPS.quantize_per_tensor(x, *how), *how)


class WithInteger(nn.Module):
    """A layer whose weight has a scale per output channel."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.axis = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
        other = [d for d in range(layer.weight.dim()) if d != self.axis]
        weight = layer.weight.detach()
        scales = weight.abs().amax(other) / 127
        shape = [-1 if d == self.axis else 1 for d in range(weight.dim())]
        self.register_buffer("weight", (weight / scales.reshape(shape)).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros_like(scales, dtype=torch.int64))
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, self.axis, -127, 127, torch.int8)
        return torch.func.functional_call(self.layer, {"weight": weight}, (x,))


@pytest.mark.parametrize(
    ("kind", "dtype"), [(kind, dtype) for kind, case in CASES.items() for dtype in case.integers],
    ids=lambda value: str(value).removeprefix("torch."),
)  # fmt: skip
def test_integers_of_every_class_of_shapes(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    case = CASES[kind]
    classes = [operands(case, shapes) for shapes in case.shapes]
    function = WithInteger(case.function) if isinstance(case.function, nn.Module) else case.function
    results = [function(*tensors) for tensors in classes]
    moves = kind.startswith(("Static", "Concatenate")) or kind in ("Clamp", "MaxPooling2d")  # keeps its scale
    everything = torch.cat([x.flatten() for xs in (*classes, results) for x in xs])
    of_inputs = step_of(everything, dtype)
    of_results = of_inputs if moves else step_of(torch.cat([x.flatten() for x in results]), dtype)
    count = len(case.shapes[0])

    def apply(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inner = [rounded(x, of_inputs, dtype) for x in tensors]
        return tuple(
            rounded(function(*inner[i : i + count]), of_results, dtype) for i in range(0, len(inner), count)
        )  # fmt: skip

    with graphs_written() as graphs:
        inputs = [x for xs in classes for x in xs]
        lowered = check(module(apply), inputs, rtol=0, atol=1.01 * of_results[0], whole=False)
    assert info(lowered).num_non_delegated_nodes == 0
    assert written(graphs, kind, DataType.QINT8 if dtype == torch.int8 else DataType.QUINT8) >= len(classes)
