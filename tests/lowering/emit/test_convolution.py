"""Convolutions are products of matrices where these can be had, and equal eager's in every case."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim
from torch.nn import BatchNorm2d, Conv1d, Conv2d, ConvTranspose2d, ReLU, Sequential

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.emit.emit import EmittedProgram
from rules_executorch.lowering.operators import OperatorSet, stock
from support.emission import check
from support.modules import Apply

torch.manual_seed(0)


def x(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype)


def kernels(emitted: EmittedProgram) -> set[str]:
    return {str(op) for op in emitted.program_file.program.execution_plan[0].operators}


def planned(emitted: EmittedProgram) -> int:
    return sum(emitted.program_file.program.execution_plan[0].non_const_buffer_sizes)


def with_room(module: torch.nn.Module) -> torch.nn.Module:
    """What follows needs more memory than the convolution, so that the convolution has some to itself."""
    return Sequential(module, Apply(lambda y: y.repeat(1, 16, *[1] * (y.dim() - 2))))


PRODUCTS: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {
    "pixels": (Conv2d(16, 24, 1), x(1, 16, 6, 7)),
    "pixels without bias": (Conv2d(16, 24, 1, bias=False), x(1, 16, 6, 7)),
    "pixels of several images": (Conv2d(16, 24, 1), x(3, 16, 6, 7)),
    "pixels, in groups": (Conv2d(16, 24, 1, groups=4), x(2, 16, 12, 8)),
    "every other pixel": (with_room(Conv2d(16, 24, 1, stride=2)), x(2, 16, 9, 11)),
    "one window": (with_room(Conv2d(8, 64, 4)), x(1, 8, 4, 4)),
    "windows side by side": (with_room(Conv2d(3, 16, 4, stride=4)), x(2, 3, 16, 12)),
    "padded": (with_room(Conv2d(8, 12, 3, padding=1)), x(1, 8, 9, 10)),
    "padded images": (with_room(Conv2d(8, 12, 3, padding=1)), x(3, 8, 9, 10)),
    "padded rows": (with_room(Conv2d(8, 12, (3, 2), padding=(1, 0))), x(1, 8, 9, 10)),
    "padded columns": (with_room(Conv2d(8, 12, (2, 5), padding=(0, 2))), x(1, 8, 9, 10)),
    "dilated": (with_room(Conv2d(8, 12, 3, padding=(4, 2), dilation=(2, 3))), x(1, 8, 9, 10)),
    "by bands": (with_room(Conv2d(24, 20, 7, stride=2, padding=3)), x(1, 24, 33, 40)),
    "by bands, of several images": (with_room(Conv2d(24, 30, 3, stride=(1, 2))), x(2, 24, 33, 40)),
    "depthwise": (with_room(Conv2d(24, 24, 3, padding=1, groups=24)), x(2, 24, 12, 13)),
    "depthwise by bands": (with_room(Conv2d(96, 96, 5, stride=2, padding=2, groups=96)), x(1, 96, 40, 40)),
    "a signal": (with_room(Conv1d(8, 16, 5, stride=2, padding=2)), x(2, 8, 50)),
    "a signal's pixels": (Conv1d(8, 16, 1), x(2, 8, 80)),
    "a signal by bands": (with_room(Conv1d(64, 32, 5, padding=2)), x(1, 64, 500)),
    "over the image": (Sequential(ReLU(), Conv2d(32, 32, 3, padding=1), ReLU()), x(1, 32, 32, 32)),
    "over the image, wide padding": (Sequential(ReLU(), Conv2d(8, 8, 5, padding=2)), x(1, 8, 128, 32)),
    "over a signal": (Sequential(ReLU(), Conv1d(64, 64, 3, padding=1)), x(1, 64, 600)),
    "an image that is needed later": (Apply(lambda a, c=Conv2d(32, 32, 3, padding=1): c(a) + a), x(1, 32, 24, 24)),
    "batch norm": (with_room(Sequential(Conv2d(8, 12, 3, bias=False), BatchNorm2d(12))), x(1, 8, 9, 10)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_equal_eager(name: str) -> None:
    module, image = PRODUCTS[name]
    used = kernels(check(module, (image,), (image * 0.5,)))
    assert "aten::bmm.out" in used and "aten::convolution.out" not in used


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_more_exact_than_by_the_kernel(dtype: torch.dtype) -> None:
    module = with_room(Conv2d(24, 20, 3, padding=1)).to(dtype)
    assert "aten::bmm.out" in kernels(check(module, (x(1, 24, 20, 20, dtype=dtype),), atol=2e-2))


def test_weights_may_be_inputs_and_in_files_of_their_own() -> None:
    inputs = (x(1, 8, 9, 10), x(12, 8, 3, 3), x(12))
    conv = Apply(lambda a, w, b: torch.conv2d(a, w, b, padding=1).repeat(1, 3, 1, 1))
    for memory in (MemoryConfig(), MemoryConfig(alloc_graph_input=False)):
        assert "aten::bmm.out" in kernels(check(conv, inputs, config=EmitConfig(memory)))
    module, image = PRODUCTS["padded"]
    assert "aten::bmm.out" in kernels(check(module, (image,), config=EmitConfig(external_constants=True)))


LEFT: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {
    "transposed": (ConvTranspose2d(8, 12, 3), x(1, 8, 9, 10)),
    "little work": (Conv2d(2, 3, 3), x(1, 2, 5, 5)),
    "channels-last": (Conv2d(8, 12, 1), x(1, 8, 9, 10).to(memory_format=torch.channels_last)),
    "windows of padding alone": (with_room(Conv2d(8, 12, 3, padding=5)), x(1, 8, 9, 10)),
    "no images": (Conv2d(8, 12, 3), x(0, 8, 30, 30)),
    "more images than calls are worth": (Conv2d(8, 12, 1), x(300, 8, 8, 8)),
    "no memory to spare": (Conv2d(32, 32, 3), x(1, 32, 20, 20)),
}


@pytest.mark.parametrize("name", LEFT)
def test_the_kernel_computes_the_rest(name: str) -> None:
    module, image = LEFT[name]
    assert "aten::convolution.out" in kernels(check(module, (image,)))


def test_the_kernel_computes_dynamic_sizes_and_what_the_caller_has_a_place_for() -> None:
    conv = Conv2d(16, 24, 1)
    dynamic = check(conv, (x(3, 16, 6, 7),), (x(2, 16, 6, 7),), dynamic_shapes=({0: Dim("n", min=2, max=8)},))
    callers = check(conv, (x(1, 16, 6, 7),), config=EmitConfig(MemoryConfig(alloc_graph_output=False)))
    assert "aten::convolution.out" in kernels(dynamic) & kernels(callers)


def test_a_runtime_without_products_has_its_kernel_called() -> None:
    lacking = EmitConfig(operators=OperatorSet(stock.names - {"aten::bmm.out"}))
    module, image = PRODUCTS["pixels"]
    assert kernels(check(module, (image,), config=lacking)) == {"aten::convolution.out"}


def test_a_chain_needs_no_more_than_an_image_and_its_result() -> None:
    layers = [layer for _ in range(3) for layer in (Conv2d(32, 32, 3, padding=1), ReLU())]
    emitted = check(Sequential(*layers), (x(1, 32, 32, 32),))
    assert "aten::convolution.out" not in kernels(emitted)
    assert planned(emitted) <= 2 * 4 * 32 * 32 * 32


class _Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other = Conv2d(8, 8, 3, padding=1), Conv2d(8, 8, 1)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        chosen = torch.cond(a.sum() > 0, lambda b: self.conv(b).relu(), lambda b: self.other(b) - b, (a,))
        return torch.cat([chosen, a, chosen], 1)


def test_branches_have_products() -> None:
    image = x(1, 8, 24, 24)
    check(_Branches(), (image,), (image.abs(),), (-image.abs(),))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[torch.nn.Module, torch.Tensor]:
    """Two dimensions, padding less than the kernel, work enough for products, and memory beside them or not."""
    groups = draw(st.sampled_from([1, 1, 2, 8]))
    channels, outputs = 8, 8 * draw(st.integers(1, 3))
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    options: dict[str, Any] = {"stride": draw(pair), "dilation": draw(pair)}
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    spans = [d * (k - 1) for d, k in zip(options["dilation"], kernel)]
    options["padding"] = tuple(draw(st.integers(0, span)) for span in spans)
    size = [span + draw(st.integers(8, 40)) for span in spans]
    conv = Conv2d(channels, outputs, kernel, groups=groups, bias=draw(st.booleans()), **options)
    module: torch.nn.Module = Sequential(ReLU(), conv, ReLU())
    return with_room(module) if draw(st.booleans()) else module, x(draw(st.integers(1, 2)), channels, *size)


@settings(max_examples=25, deadline=None)
@given(convolutions())
def test_random_convolutions_equal_eager(case: tuple[torch.nn.Module, torch.Tensor]) -> None:
    check(case[0], (case[1],))
