"""What the runtime has no kernel for, or one that refuses it, runs by kernels that it has, and agrees with eager."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.edge_programs import Function
from support.emission import emit
from support.official_runtime import run_method
from support.operator_cases import i, p, r
from torch.utils._pytree import tree_leaves

from rules_executorch.lowering.format.write import pte_bytes

aten = torch.ops.aten

NAN = torch.tensor([[1.0, math.nan, 3.0, 2.0, -1.0], [4.0, 0.0, -2.0, 7.0, 5.0]])
TIES = torch.tensor([[3, 1, 3, 1, 2, 3], [0, 0, 5, 5, 0, 1]])
INDEX, SOURCE = i(3, 5, below=4), r(3, 5)


def reduce_by_index(reduce: str, include_self: bool) -> Callable[..., Any]:
    return lambda x, j, s: x.scatter_reduce(1, j, s, reduce, include_self=include_self)


CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "sort": (lambda x: x.sort(1), (r(3, 7),)), "sort descending": (lambda x: x.sort(0, descending=True), (r(7, 3),)),
    "sort stable": (lambda x: x.sort(dim=1, stable=True), (TIES,)),
    "sort stable descending": (lambda x: x.sort(stable=True, dim=1, descending=True), (TIES,)),
    "sort stable of nan": (lambda x: x.sort(dim=1, stable=True), (NAN.repeat(1, 3),)),
    "sort stable of nan descending": (lambda x: x.sort(dim=1, stable=True, descending=True), (NAN.repeat(1, 3),)),
    "sort stable bool": (lambda x: x.sort(dim=0, stable=True), (r(9, dtype=torch.bool),)),
    "argsort stable": (lambda x: x.argsort(dim=1, stable=True), (TIES,)),
    "sort bool": (lambda x: x.sort(0)[0], (r(6, dtype=torch.bool),)),
    "median": (torch.median, (r(7),)), "median of nan": (lambda x: x.median(1), (NAN,)),
    "nanmedian": (lambda x: x.nanmedian(1), (NAN,)),
    "kthvalue": (lambda x: x.kthvalue(2, 1), (r(3, 6),)), "quantile": (lambda x: x.quantile(0.3, 1), (r(3, 6),)),
    "cummax": (lambda x: x.cummax(1), (TIES,)), "cummin": (lambda x: x.cummin(0), (r(5, 3),)),
    "cummax and cummin of nan": (lambda x: (*x.cummax(1), *x.cummin(1)), (NAN.repeat(1, 3),)),
    "cumprod": (lambda x: x.cumprod(1), (r(2, 6),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (r(2, 6),)),
    "cumsum of a number": (lambda x: x.cumsum(0), (r(1)[0],)),
    "isin": (torch.isin, (TIES, torch.tensor([1, 5]))), "searchsorted": (torch.searchsorted, (r(9).sort()[0], r(2, 3))),
    "isin many": (torch.isin, (i(4, 5, below=99), i(50, below=98))),
    "searchsorted of each row": (torch.searchsorted, (r(3, 9).sort()[0], r(3, 20))),
    "searchsorted of ties": (lambda s, x: torch.searchsorted(s, x, right=True),
        (i(16, below=5).sort()[0], i(9, below=6))),
    "searchsorted of a number": (lambda s: torch.searchsorted(s, 0.5, out_int32=True), (r(8).sort()[0],)),
    "searchsorted of nan": (torch.searchsorted,
        (torch.tensor([1.0, 2.0, math.nan]), torch.tensor([math.nan, 0.0, 3.0]))),
    "searchsorted in nothing": (torch.searchsorted, (r(0), r(3))),
    "bucketize": (lambda x, b: torch.bucketize(x, b, right=True), (r(2, 3), r(9).sort()[0])),
    **{
        f"scatter_reduce {reduce} {include}": (reduce_by_index(reduce, include), (p(3, 4), INDEX, SOURCE))
        for reduce in ("sum", "prod", "mean", "amax", "amin") for include in (True, False)
    },
    "scatter_reduce part": (lambda x, j, s: x.scatter_reduce(0, j, s, "amax"), (r(5, 6), i(2, 3, below=5), r(4, 4))),
    "scatter_reduce integers": (lambda x, j, s: x.scatter_reduce(0, j, s, "amin"),
        (i(4, below=9), i(6, below=4), i(6, below=9))),
    "scatter_reduce truth": (lambda x, j, s: x.scatter_reduce(0, j, s, "amax"),
        (r(6, dtype=torch.bool), i(9, below=6), r(9, dtype=torch.bool))),
    "index_reduce": (lambda x, j, s: x.index_reduce(0, j, s, "amax"), (r(4, 3), i(6, below=4), r(6, 3))),
    "index_add": (lambda x, j, s: x.index_add(0, j, s), (r(4, 3), i(6, below=4), r(6, 3))),
    "index_copy": (lambda x, s: x.index_copy(0, torch.tensor([2, 0]), s), (r(4, 3), r(2, 3))),
    "gather by int32": (lambda x, j: torch.take_along_dim(x, j.long(), 1),
        (r(3, 4), i(3, 2, below=4, dtype=torch.int32))),
    "embedding_bag sum": (lambda j, w: F.embedding_bag(j, w, torch.tensor([0, 2, 2]), mode="sum"),
        (i(6, below=5), r(5, 4))),
    "embedding_bag mean": (lambda j, w: F.embedding_bag(j, w, mode="mean"), (i(3, 4, below=5), r(5, 4))),
    "embedding_bag max": (lambda j, w: F.embedding_bag(j, w, torch.tensor([0, 3]), mode="max"),
        (i(6, below=5), r(5, 4))),
    "embedding_bag max and padding": (
        lambda j, w: F.embedding_bag(
            j, w, torch.tensor([0, 2, 2, 6]), mode="max", padding_idx=1, include_last_offset=True),
        (i(6, below=3), r(5, 4))),
    "embedding_bag weighted": (lambda j, w, s: F.embedding_bag(j, w, mode="sum", per_sample_weights=s),
        (i(3, 4, below=5), r(5, 4), r(3, 4))),
    "embedding_bag padding": (lambda j, w: F.embedding_bag(j, w, mode="mean", padding_idx=1),
        (i(3, 4, below=3), r(5, 4))),
    "max_pool3d": (lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True), (r(2, 2, 5, 7, 6),)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), (r(2, 3, 7),)),
    "adaptive_max_pool2d uneven": (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), (r(2, 3, 5, 7),)),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (2, 2, 1), return_indices=True), (r(1, 2, 4, 5, 3),)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), (r(2, 2, 5, 7, 6),)),
    "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (r(1, 2, 4, 6),)),
    "max_pool2d backward": (
        lambda x: aten.max_pool2d_with_indices_backward(torch.ones(1, 2, 3, 3), x, [3, 3], [2, 2], [1, 1], [1, 1],
            False, F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]), (r(1, 2, 6, 6),),
    ),
    "conv3d channels": (lambda x, w: F.conv3d(x, w, padding=(1, 0, 2)), (r(2, 4, 3, 4, 5), r(6, 4, 2, 3, 3))),
    "conv_transpose3d groups": (lambda x,
        w: F.conv_transpose3d(x, w, stride=(1, 2, 3), dilation=(2, 1, 1), groups=2),
    (r(1, 4, 3, 2, 3), r(4, 3, 2, 3, 2))),
    "pairs as complex numbers": (lambda x, f: torch.view_as_real(torch.view_as_complex(x) * torch.polar(f, f)),
        (r(2, 3, 2), p(2, 3))),
    "complex numbers of parts": (lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)),
        (r(2, 3), r(3))),
    "a write to the parts of complex numbers": (lambda x: _with_real_part(x.clone(), 5.0), (r(2, 3, 2),)),
    "round to decimals": (lambda x: torch.round(x * 10, decimals=1), (r(5),)),
    "round to tens": (lambda x: torch.round(x * 100, decimals=-1), (r(5),)),
    "squeeze": (torch.squeeze, (r(1, 3, 1, 2),)), "fmax": (torch.fmax, (NAN, NAN.flip(1))),
    "fmin": (torch.fmin, (NAN, NAN.flip(1))), "hypot": (torch.hypot, (r(5), r(5))),
    "exp2": (torch.exp2, (r(5),)), "signbit": (torch.signbit, (torch.tensor([1.0, -0.0, -2.0, 0.0]),)),
    "copysign": (torch.copysign, (r(4), torch.tensor([1.0, -0.0, -2.0, 0.0]))),
    "remainder of integers": (torch.remainder,
        (r(9, dtype=torch.int64), torch.tensor([3, -3, 4, -4, 5, 7, -7, 2, -2]))),
    "remainder by a number": (lambda x: x % -4, (r(9, dtype=torch.int64),)),
    "logit of halves": (torch.logit, (torch.sigmoid(r(5)).half(),)),
    "maxima of nothing": (lambda x: (x.amax(1), x.amin((1, 2), True)), (r(0, 3, 4),)),
    "angle": (torch.angle, (NAN,)), "logaddexp2": (torch.logaddexp2, (r(5), r(5))),
    "integer plus half": (lambda x: x + 0.5, (r(5, dtype=torch.int64),)),
    "integer minus half": (lambda x: x - 0.5, (r(5, dtype=torch.int32),)),
    "shifts": (lambda x: (x << 2, x >> 1), (p(5, dtype=torch.int64),)),
    "diagonal_scatter": (lambda x, s: x.diagonal_scatter(s, 1), (r(4, 5), r(4))),
    "diagonal_scatter below": (lambda x, s: x.diagonal_scatter(s, -1, 0, 2), (r(4, 2, 3), r(2, 3))),
    "diag_embed": (torch.diag_embed, (r(2, 3),)),
    "negative padding": (lambda x: F.pad(x, (-1, 2, 1, -1)), (r(4, 5),)),
    "roll all": (lambda x: x.roll(3), (r(3, 4),)), "sum of a number": (lambda x: x.sum(0), (r(1)[0],)),
    "log_softmax of doubles": (lambda x: x.log_softmax(1), (r(2, 5).double(),)),
    "masked_select broadcast": (torch.masked_select, (r(4), r(3, 4, dtype=torch.bool))),
    "transposed number": (lambda x: torch.transpose_copy(x, 0, 0) + 1, (r(1)[0],)),
    "transposed vector": (lambda x: torch.t_copy(x) + 1, (r(3),)),
    "bilinear": (F.bilinear, (r(2, 3), r(2, 4), r(5, 3, 4), r(5))),
    "linear of a vector": (F.linear, (r(3), r(4, 3), r(4))),
    "attention": (F.scaled_dot_product_attention, (r(1, 2, 4, 8), r(1, 2, 6, 8), r(1, 2, 6, 8))),
    "attention causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (r(2, 4, 8), r(2, 4, 8), r(2, 4, 8))),
    "attention masked": (F.scaled_dot_product_attention,
        (r(1, 2, 4, 8), r(1, 2, 6, 8), r(1, 2, 6, 8), r(4, 6, dtype=torch.bool))),
    "attention of nothing": (F.scaled_dot_product_attention,
        (r(1, 2, 2, 8), r(1, 2, 3, 8), r(1, 2, 3, 8), torch.tensor([[True, False, True], [False, False, False]]))),
    "attention biased": (F.scaled_dot_product_attention, (r(1, 2, 4, 8), r(1, 2, 6, 8), r(1, 2, 6, 8), r(4, 6))),
    "attention grouped": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (r(1, 4, 3, 8), r(1, 2, 5, 8), r(1, 2, 5, 8))),
}  # fmt: skip


def _with_real_part(pairs: torch.Tensor, number: float) -> torch.Tensor:
    torch.view_as_real(torch.view_as_complex(pairs))[..., 0].fill_(number)
    return pairs


@pytest.mark.parametrize("name", CALLS)
def test_it_agrees_with_eager_on_the_runtime(name: str) -> None:
    function, inputs = CALLS[name]
    expected = tree_leaves(function(*copy.deepcopy(inputs)))
    module = Function(lambda _, *args: tuple(tree_leaves(function(*args))))
    outputs = run_method(pte_bytes(emit(module, inputs)), copy.deepcopy(inputs))
    for output, wanted in zip(outputs, expected, strict=True):
        tolerance = 5e-3 if wanted.dtype == torch.float16 else 1e-4
        torch.testing.assert_close(output, wanted, atol=tolerance, rtol=tolerance, equal_nan=True)


LARGE: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "sort stable": (lambda x: x.sort(stable=True), (r(5000),)),
    "cummax": (lambda x: x.cummax(0), (r(5000),)),
    "cumprod": (lambda x: x.cumprod(0), (r(5000),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), (r(5000),)),
    "isin": (torch.isin, (i(5000, below=10**9), i(5000, below=10**9 + 1))),
    "searchsorted": (torch.searchsorted, (r(5000).sort()[0], r(5000))),
    "scatter_reduce": (lambda x, j, s: x.scatter_reduce(0, j, s, "prod"), (p(5000), i(5000, below=4000), p(5000))),
    "embedding_bag": (lambda j, w, at: F.embedding_bag(j, w, at), (i(5000, below=50), r(50, 2), torch.arange(5000))),
    "embedding_bag max": (lambda j, w, at: F.embedding_bag(j, w, at, mode="max"),
        (i(5000, below=50), r(50, 2), torch.arange(5000))),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_memory_does_not_grow_with_the_square_of_sizes(name: str) -> None:
    function, inputs = LARGE[name]
    emitted = emit(Function(lambda _, *args: tuple(tree_leaves(function(*args)))), inputs)
    assert sum(emitted.program_file.program.execution_plan[0].non_const_buffer_sizes) < 20 * 8 * 5000
    outputs = run_method(pte_bytes(emitted), copy.deepcopy(inputs))
    torch.testing.assert_close(outputs, tree_leaves(function(*inputs)), atol=1e-4, rtol=1e-3)


SIZES = {
    "sort stable": lambda x: x.sort(stable=True),
    "cummax": lambda x: x.cummax(0),
    "cumprod": lambda x: x.cumprod(0),
    "searchsorted": lambda x: torch.searchsorted(x.sort()[0], torch.tensor([2.0, 5.0])),
    "isin": lambda x: torch.isin(torch.tensor([2.0, 5.0]), x),
    "scatter_reduce": lambda x: torch.zeros(9).scatter_reduce(0, x.long() % 9, x, "amax"),
}


@pytest.mark.parametrize("name", SIZES)
def test_rounds_are_as_many_as_the_largest_size_needs(name: str) -> None:
    module = Function(lambda _, x: tuple(tree_leaves(SIZES[name](x))))
    emitted = emit(module, (p(9).round(),), ((({0: torch.export.Dim("n", min=1, max=70)},)),))
    for size in (1, 2, 70):
        x = (p(size) * 3).round() / 2
        torch.testing.assert_close(run_method(pte_bytes(emitted), (x,)), tree_leaves(SIZES[name](x)))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bias", [False, True])
def test_recurrent_layers_agree_with_eager_on_the_runtime(
    layer: type[torch.nn.RNNBase], bidirectional: bool, bias: bool
) -> None:
    module = layer(3, 4, num_layers=2, bidirectional=bidirectional, batch_first=True, bias=bias).eval()
    expected = [t.detach() for t in tree_leaves(module(r(2, 5, 3)))]
    outputs = run_method(pte_bytes(emit(module, (r(2, 5, 3),))), (r(2, 5, 3),))
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-4)


RANDOM: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], bool]]] = {
    "rand": (torch.rand_like, lambda t: 0 <= t.min() and t.max() < 1 and 0.4 < t.mean() < 0.6),
    "randn": (torch.randn_like, lambda t: abs(t.mean()) < 0.2 and 0.8 < t.std() < 1.2),
    "randint": (lambda x: torch.randint(3, 7, (1000,)), lambda t: set(t.tolist()) == {3, 4, 5, 6}),
    "randint_like": (lambda x: torch.randint_like(x, 5), lambda t: set(t.tolist()) == {0, 1, 2, 3, 4}),
    "randperm": (lambda x: torch.randperm(100), lambda t: sorted(t.tolist()) == list(range(100)) != t.tolist()),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.25), lambda t: 0.15 < t.mean() < 0.35),
    "uniform": (lambda x: x.clone().uniform_(2, 4), lambda t: 2 <= t.min() and t.max() < 4 and 2.8 < t.mean() < 3.2),
    "normal": (lambda x: x.clone().normal_(5, 2), lambda t: 4.6 < t.mean() < 5.4 and 1.6 < t.std() < 2.4),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_distributed_as_they_should(name: str) -> None:
    function, holds = RANDOM[name]
    (output,) = run_method(pte_bytes(emit(Function(lambda _, x: function(x)), (r(1000),))), (r(1000),))
    assert holds(output)
