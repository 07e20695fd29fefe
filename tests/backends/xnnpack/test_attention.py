"""Attention is one operator to the partitioner: masks, rows of which nothing is left, and heads that share keys."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from support.xnnpack import check, graphs_written, info, kinds_of, module

QUERY, KEY, VALUE = (torch.randn(2, 4, length, 8) for length in (5, 6, 6))
SHARED = KEY[:, :2].contiguous(), VALUE[:, :2].contiguous()


def attend(query, key, value, mask=None, **options):  # type: ignore[no-untyped-def]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)


@pytest.mark.parametrize("shape", [(5, 6), (4, 5, 6), (2, 1, 5, 6), (2, 4, 5, 6), (2, 1, 1, 6)], ids=str)
def test_a_mask_of_numbers_is_added(shape: tuple[int, ...]) -> None:
    check(module(attend), (QUERY, KEY, VALUE, torch.randn(shape)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float", "half"])
def test_a_row_of_which_nothing_is_left_gives_zeros(dtype: torch.dtype) -> None:
    mask = torch.randn(5, 6)
    mask[0], mask[1, 2:] = -math.inf, -math.inf
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    inputs = [x.to(dtype) for x in (QUERY, KEY, VALUE, mask)]
    assert not attend(*inputs)[:, :, 0].any()
    check(module(attend), inputs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("number", [torch.finfo(torch.float32).min, -1e9, -1e4])
def test_a_row_that_is_masked_by_a_large_number_is_a_mean(number: float) -> None:
    check(module(attend), (QUERY, KEY, VALUE, torch.full((5, 6), number)))


def test_a_mask_of_booleans_is_made_numbers_outside() -> None:
    mask = torch.rand(5, 6) < 0.5
    mask[2] = False
    found = info(check(module(attend), (QUERY, KEY, VALUE, mask), whole=False))
    assert found.num_delegated_subgraphs == 1
    assert [each.operator for each in found.left_behind] == ["aten.where.self"]


def test_a_causal_mask_is_a_constant() -> None:
    check(module(lambda q, k, v: attend(q, k, v, is_causal=True)), (QUERY, QUERY + 1, QUERY - 1))


@pytest.mark.parametrize("mask", [None, (5, 6), (2, 1, 5, 6), (2, 4, 5, 6)], ids=str)
def test_heads_that_share_keys_and_values_do_not_copy_them(mask: tuple[int, ...] | None) -> None:
    model = module(lambda *inputs: attend(*inputs, enable_gqa=True))
    inputs = (QUERY, *SHARED) if mask is None else (QUERY, *SHARED, torch.randn(mask))
    with graphs_written() as graphs:
        check(model, inputs)
    (graph,) = graphs
    repeated = [node for node in graph.nodes if node.kind == "Multiply" and graph.inputs[1] in node.operands]
    assert not repeated and not {node.kind for node in graph.nodes} & {"Concatenate2", "StaticTranspose"}


def test_keys_are_not_copied_to_be_transposed() -> None:
    assert "StaticTranspose" not in kinds_of(module(attend), (QUERY, KEY, VALUE))


@pytest.mark.parametrize("number", [-math.inf, -1e9])
def test_scores_that_a_constant_mask_fills_stay_in_their_partition(number: float) -> None:
    mask = torch.ones(6, 8, dtype=torch.bool).tril(1)
    check(module(lambda x: torch.softmax((x * 2).masked_fill(~mask, number), -1)), (torch.randn(2, 6, 8),))


def test_other_numbers_are_filled_in_by_the_cpu_since_they_may_hide_no_numbers() -> None:
    mask = torch.ones(6, 8, dtype=torch.bool).tril(1)
    model = module(lambda x: x.log().masked_fill(~mask, 0.0))
    found = info(check(model, (torch.randn(2, 6, 8),), whole=False))
    assert [each.operator for each in found.left_behind] == ["aten.masked_fill.Scalar"]
