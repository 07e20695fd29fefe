"""Which results may overwrite an operand that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .lifetimes import Lifetime


@dataclass(frozen=True)
class Overwrite:
    """`instruction` may write its result, storage `result`, over its operand, storage `operand`."""

    instruction: int
    result: int
    operand: int


def reuse_storages(
    lifetimes: Sequence[Lifetime | None], sizes: Sequence[int], overwrites: Iterable[Overwrite]
) -> list[int]:
    """For each storage the one that it shares memory with: itself, or an operand's.

    `overwrites` are in instruction order. One is taken if the operand's life ends where the
    result's begins and both have the same size, so that the peak never grows.
    """
    shares = list(range(len(lifetimes)))
    end = [lifetime[1] if lifetime else -2 for lifetime in lifetimes]  # of what lies in a storage's memory by now
    for overwrite in overwrites:
        result, operand = lifetimes[overwrite.result], lifetimes[overwrite.operand]
        home = shares[overwrite.operand]
        if (
            result is not None
            and operand is not None
            and shares[overwrite.result] == overwrite.result
            and home != overwrite.result
            and sizes[overwrite.result] == sizes[home]
            and result[0] == overwrite.instruction
            and end[home] == overwrite.instruction
        ):
            shares[overwrite.result] = home
            end[home] = result[1]
    return shares
