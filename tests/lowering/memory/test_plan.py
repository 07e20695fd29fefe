"""Placement of blocks: nothing alive at one time overlaps, and time stays near-linear."""

from __future__ import annotations

import random
import time

from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.lowering.memory.block import Block
from rules_executorch.lowering.memory.lower_bound import lower_bound
from rules_executorch.lowering.memory.plan import place

BLOCKS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(-1, 40), st.integers(0, 40)).map(
        lambda t: Block(size=t[0], first=t[1], last=t[1] + t[2])
    ),
    max_size=40,
)


def overlap_in_time(a: Block, b: Block) -> bool:
    return a.first <= b.last and b.first <= a.last


@given(BLOCKS, st.sampled_from([1, 16, 64]))
def test_blocks_alive_together_never_overlap(blocks: list[Block], alignment: int) -> None:
    placement = place(blocks, alignment)
    assert all(offset % alignment == 0 for offset in placement.offsets)
    for i, (a, at) in enumerate(zip(blocks, placement.offsets)):
        assert 0 <= at and at + a.size <= placement.size
        for b, bt in list(zip(blocks, placement.offsets))[:i]:
            if overlap_in_time(a, b) and a.size and b.size:
                assert at + a.size <= bt or bt + b.size <= at


@given(BLOCKS)
def test_lower_bound_is_the_most_that_lives_at_one_time(blocks: list[Block]) -> None:
    times = {block.first for block in blocks}
    by_hand = max((sum(b.size for b in blocks if b.first <= t <= b.last) for t in times), default=0)
    assert lower_bound(blocks) == by_hand
    assert place(blocks, 1).size >= by_hand == place(blocks, 1).lower_bound


def test_a_chain_needs_two_blocks() -> None:
    placement = place([Block(64, i, i + 1) for i in range(100)])
    assert placement.size == placement.lower_bound == 128


def test_a_gap_between_longer_lived_blocks_is_used() -> None:
    blocks = [Block(64, 0, 9), Block(32, 0, 3), Block(64, 0, 9), Block(32, 4, 9)]
    assert place(blocks).size == 160


def test_ten_thousand_blocks_take_under_a_few_seconds_however_they_live() -> None:
    chance = random.Random(0)
    short = [Block(chance.randrange(1, 1 << 20), i, i + chance.randrange(12)) for i in range(10_000)]
    at_once = [Block(chance.randrange(1, 1 << 20), 0, i) for i in range(10_000)]
    start = time.process_time()
    place(short)
    place(at_once)
    assert time.process_time() - start < 5
