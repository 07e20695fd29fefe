"""Sizes that change from call to call: what follows them is delegated, what does not is left to the CPU kernels."""

from __future__ import annotations

import torch
from support.xnnpack import check, info, module
from torch.export import Dim

BATCH, LENGTH = Dim("batch", min=1, max=9), Dim("length", min=2, max=12)


def batches(*shape: int, sizes: tuple[int, ...] = (2, 1, 9, 4)) -> list[tuple[torch.Tensor]]:
    return [(torch.randn(size, *shape),) for size in sizes]


def test_a_batch_grows_and_shrinks() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Softmax(-1))
    check(model, *batches(3, 6), dynamic_shapes=({0: BATCH},))


def test_images_of_any_size_and_number() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(4, 4, 3, groups=4),
        torch.nn.ZeroPad2d(1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 2),
    )  # fmt: skip
    inputs = [(torch.randn(n, 3, h, w),) for n, h, w in ((2, 8, 10), (1, 12, 6), (9, 6, 12))]
    sizes = {0: BATCH, 2: 2 * Dim("h", min=3, max=6), 3: 2 * Dim("w", min=3, max=6)}
    check(model, *inputs, dynamic_shapes=(sizes,), whole=False)


def test_views_infer_the_one_size_that_changes() -> None:
    def heads(x: torch.Tensor) -> torch.Tensor:
        return (x.view(x.shape[0], 2, 3).transpose(1, 2) * 2).reshape(x.shape[0], 6).exp()

    check(module(heads), *batches(6), dynamic_shapes=({0: BATCH},), whole=False)


def test_slices_and_joins_of_other_dimensions_follow() -> None:
    def parts(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, 1:3] + 1, x[..., :, -2:], x.chunk(2, 1)[1]], 1)

    check(module(parts), *batches(4), dynamic_shapes=({0: BATCH},), whole=False)


def test_two_sizes_that_change() -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.mT, -1) @ x

    inputs = [(torch.randn(b, t, 4),) for b, t in ((2, 5), (1, 2), (9, 12))]
    check(module(both), *inputs, dynamic_shapes=({0: BATCH, 1: LENGTH},))


def test_a_view_with_two_sizes_that_change_is_left_to_the_cpu() -> None:
    def split(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x).view(x.shape[0], x.shape[1], 2, 3).exp()

    inputs = [(torch.randn(b, t, 6),) for b, t in ((2, 5), (1, 2), (9, 12))]
    found = info(check(module(split), *inputs, dynamic_shapes=({0: BATCH, 1: LENGTH},), whole=False))
    (left,) = [each for each in found.left_behind if "view" in each.operator]
    assert "more than one dynamic size" in left.reason
    assert left.source is not None
    assert found.by_operator["aten.exp.default"].delegated == 2


def test_attention_over_a_length_that_changes() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    inputs = [(torch.randn(1, t, 8),) for t in (5, 2, 12)]
    check(layer, *inputs, dynamic_shapes=({1: LENGTH},), whole=False, atol=1e-3)
