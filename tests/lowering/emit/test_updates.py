"""Caches of which each call replaces a part: the part is written where the cache is, and nothing else moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch.export import Dim

from rules_executorch.lowering.emit.emit import EmittedProgram
from support.emission import check
from support.modules import Apply


def operators(emitted: EmittedProgram) -> set[str]:
    """The kernels called."""
    plan = emitted.program_file.program.execution_plan[0]
    return {str(operator).removeprefix("aten::") for operator in plan.operators}


class Cache(torch.nn.Module):
    """Keys of shape [batch, heads, positions, features], of which `write` changes a part."""

    def __init__(self, write: Callable[..., None]):
        super().__init__()
        self.write = write
        self.register_buffer("keys", torch.randn(1, 2, 8, 4))

    def forward(self, new: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.write(self.keys, new, position)
        return self.keys.sum(2) * 2


def at(position: torch.Tensor) -> int:
    number = position.item()
    torch._check(number >= 0)
    torch._check(number < 8)
    return number


IN_PLACE: dict[str, Callable[..., None]] = {
    "a slice": lambda keys, new, position: keys[:, :, 3:4].copy_(new),
    "a slice from the end": lambda keys, new, position: keys[:, :, -2:-1].copy_(new),
    "an index": lambda keys, new, position: keys[:, :, 3].copy_(new[:, :, 0]),
    "an index from the end": lambda keys, new, position: keys[:, :, -3].copy_(new[:, :, 0]),
    "every third": lambda keys, new, position: keys[:, :, ::3].copy_(torch.cat([new] * 3, 2)),
    "a row of the outermost dimension": lambda keys, new, position: keys[0].copy_(torch.cat([new] * 8, 2)[0]),
    "a slice whose place is a number": lambda keys, new, position: keys.narrow(2, at(position), 1).copy_(new),
    "an index that is a number": lambda keys, new, position: keys.select(2, at(position)).copy_(new[:, :, 0]),
    "a list of indices": lambda keys, new, position: keys.__setitem__((slice(None), slice(None), position), new),
    "one slice, then another": lambda keys, new, position: (keys[:, :, :1].copy_(new), keys[:, :, 4:5].copy_(-new)),
    "one slice, then over it": lambda keys, new, position: (
        keys[:, :, 2:4].copy_(torch.cat([new, -new], 2)), keys[:, :, 3:4].copy_(new * 3),
    ),
    "values that are views": lambda keys, new, position: keys[:, :, 3:4].copy_(new.view(2, 4).view(1, 2, 1, 4)),
}  # fmt: skip

COPIED: dict[str, Callable[..., None]] = {
    "a part of itself": lambda keys, new, position: keys[:, :, :1].copy_(keys[:, :, 1:2] + new),
    "a view of itself": lambda keys, new, position: keys[:, :1].copy_(keys.view(2, 8, 4)[1:].unsqueeze(0)),
    "a part of a part": lambda keys, new, position: keys[:, 1:, 3].fill_(2),
    "elements": lambda keys, new, position: keys[0].index_put_((torch.tensor([1]), position), new[0, :1, 0]),
    "sums": lambda keys, new, position: keys.view(16, 4).index_put_((position,), new[0, 0], accumulate=True),
    "broadcast": lambda keys, new, position: keys.__setitem__((slice(None), slice(None), position), new[:, :1]),
}  # fmt: skip

RUNS = [(torch.randn(1, 2, 1, 4), torch.tensor([place])) for place in (3, 0, 7, 3)]


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_part_of_state_is_written_in_place(name: str) -> None:
    used = operators(check(Cache(IN_PLACE[name]), *RUNS))
    assert "index_put_" in used
    assert not {"copy_", "index_put.out", "slice_scatter.out", "select_scatter.out"} & used


def test_indices_may_count_from_the_end() -> None:
    check(Cache(IN_PLACE["a list of indices"]), *[(RUNS[0][0], torch.tensor([place])) for place in (-1, -8, 2)])


@pytest.mark.parametrize("name", COPIED)
def test_what_the_kernel_cannot_write_in_place_is_right_too(name: str) -> None:
    check(Cache(COPIED[name]), *RUNS)


def test_state_that_is_read_after_it_was_changed_is_changed_elsewhere() -> None:
    class Difference(Cache):
        def forward(self, new: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, ...]:
            old, pieces = self.keys.clone(), [piece.clone() for piece in self.keys[0].split(1)]
            self.write(self.keys, new, position)
            return self.keys - old, self.keys[0, 1:] + pieces[0], *pieces

    for write in IN_PLACE.values():
        check(Difference(write), *RUNS[:3])


def test_parts_along_a_dimension_beside_one_that_changes() -> None:
    class Ring(torch.nn.Module):
        def forward(self, keys: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            keys[:, 1:2].copy_(new)
            return keys * 2

    batch = Dim("batch", min=1, max=6)
    runs = [(torch.randn(n, 3, 4), torch.randn(n, 1, 4)) for n in (2, 5, 1)]
    used = operators(check(Ring(), *runs, dynamic_shapes={"keys": {0: batch}, "new": {0: batch}}))
    assert used == {"index_put_", "mul.Scalar_out"}


def test_what_a_loop_carries_is_changed_in_place() -> None:
    def forward(new: torch.Tensor) -> torch.Tensor:
        def write(row: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return row + 1, torch.index_put(rows, (row.view(1),), new.unsqueeze(0) * row)

        return while_loop(lambda row, rows: row < 3, write, (torch.tensor(0), new.expand(5, 4) + 1))[1]

    used = operators(check(Apply(forward), (torch.randn(4),), (torch.randn(4),)))
    assert "index_put_" in used and "index_put.out" not in used


def test_the_planned_memory_is_not_that_of_a_second_cache() -> None:
    class Large(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keys", torch.zeros(1, 8, 512, 64))

        def forward(self, new: torch.Tensor) -> torch.Tensor:
            self.keys[:, :, 9:10] = new
            return self.keys[0, 0, 9] * 1

    emitted = check(Large(), (torch.randn(1, 8, 1, 64),))
    assert emitted.memory["forward"].planned < 8 * 512 * 64 * 4 / 50
