"""Lifetimes and reuse of dying operands."""

from __future__ import annotations

from rules_executorch.lowering.memory.lifetimes import lifetimes
from rules_executorch.lowering.memory.reuse import Overwrite, reuse_storages


def test_a_storage_lives_from_first_to_last_touch() -> None:
    assert lifetimes([[0], [0, 1], [1]], 3) == [(0, 1), (1, 2), None]


def test_inputs_live_from_before_the_start_and_outputs_beyond_the_end() -> None:
    assert lifetimes([[0, 1]], 3, from_start=[0, 2], to_end=[1]) == [(-1, 0), (0, 1), (-1, -1)]


def test_an_input_that_is_an_output_lives_throughout() -> None:
    assert lifetimes([[]], 1, from_start=[0], to_end=[0]) == [(-1, 1)]


def test_what_a_loop_reads_survives_until_the_loop_ends() -> None:
    # 0 is made before the loop (instructions 1 to 4) and read in it; 1 lives within one round.
    touched = [[0], [0, 1], [1], [2], []]
    assert lifetimes(touched, 3, loops=[(1, 4)]) == [(0, 4), (1, 2), (3, 3)]


def test_in_nested_loops_the_outer_end_counts_for_what_comes_from_outside() -> None:
    touched = [[0], [1], [0, 1], [], []]
    assert lifetimes(touched, 2, loops=[(2, 3), (1, 4)]) == [(0, 4), (1, 3)]


def test_a_result_takes_over_a_dying_operand_of_its_size() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    overwrites = [Overwrite(1, result=1, operand=0), Overwrite(2, result=2, operand=1)]
    assert reuse_storages(chain, [64, 64, 64], overwrites) == [0, 0, 0]


def test_an_operand_that_is_needed_later_or_is_of_another_size_stays() -> None:
    assert reuse_storages([(0, 5), (1, 2)], [64, 64], [Overwrite(1, 1, 0)]) == [0, 1]
    assert reuse_storages([(0, 1), (1, 2)], [64, 32], [Overwrite(1, 1, 0)]) == [0, 1]


def test_memory_that_was_taken_over_is_not_taken_twice() -> None:
    # Both results could overwrite storage 0 at instruction 1.
    overwrites = [Overwrite(1, 1, 0), Overwrite(1, 2, 0)]
    assert reuse_storages([(0, 1), (1, 3), (1, 2)], [8, 8, 8], overwrites) == [0, 0, 2]
