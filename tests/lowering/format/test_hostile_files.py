"""Malformed files: one clear line, never a traceback, a hang or an explosion."""

from __future__ import annotations

import random

import pytest
import torch

from rules_executorch.lowering.emit.config import EmitConfig
from rules_executorch.lowering.errors import InvalidFileError
from rules_executorch.lowering.format.inspect import describe
from rules_executorch.lowering.format.ptd import ptd_bytes, read_ptd
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.format.write import pte_bytes
from support.emission import emit
from support.fuzz import mutations


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("count", torch.ones(3))

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count.add_(a)
        return torch.cat([self.linear(a), self.count]), torch.topk(a, 2)[0]


@pytest.fixture(scope="module")
def program() -> bytes:
    return pte_bytes(emit(Small(), (torch.randn(3),)))


@pytest.fixture(scope="module")
def tensor_data() -> bytes:
    emitted = emit(Small(), (torch.randn(3),), config=EmitConfig(external_constants=True))
    return ptd_bytes(emitted.external_data["_default_external_constant"])


def test_every_truncation_is_refused(program: bytes) -> None:
    for length in range(0, len(program) - 1, 7):
        with pytest.raises(InvalidFileError) as caught:
            read_pte(program[:length])
        assert "\n" not in str(caught.value)


def test_mutated_programs_are_read_or_refused_in_one_line(program: bytes) -> None:
    for mutated in mutations(program, 600, seed=1):
        try:
            describe(read_pte(mutated))
        except InvalidFileError as error:
            assert "\n" not in str(error) and str(error).startswith("invalid .pte file: ")


def test_mutated_tensor_data_are_read_or_refused_in_one_line(tensor_data: bytes) -> None:
    read_ptd(tensor_data)
    for mutated in mutations(tensor_data, 300, seed=2):
        try:
            read_ptd(mutated)
        except InvalidFileError as error:
            assert "\n" not in str(error) and str(error).startswith("invalid .ptd file: ")


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 64, b"PK\x03\x04" + b"\0" * 100, b"\xff" * 200])
def test_files_of_other_kinds_are_refused(content: bytes) -> None:
    for read in (read_pte, read_ptd):
        with pytest.raises(InvalidFileError):
            read(content)


def test_random_bytes_behind_a_valid_beginning(program: bytes) -> None:
    chance = random.Random(3)
    for _ in range(100):
        with pytest.raises(InvalidFileError):
            read_pte(program[:40] + chance.randbytes(len(program) - 40))
