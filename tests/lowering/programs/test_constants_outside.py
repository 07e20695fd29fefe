"""Weights in .ptd files, all of them or by tag, and methods that return constants."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from rules_executorch.lowering import ExecutorchBackendConfig, LoweringError
from rules_executorch.lowering.format.ptd import read_ptd
from support.official_runtime import run_method, run_methods
from support.programs import assert_matches, forward, lowered
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 4)
        self.register_buffer("count", torch.tensor([2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return self.second(torch.relu(self.first(x))) * self.count


X = torch.randn(3, 64)


def test_all_weights_outside_of_the_program(tmp_path: Path):
    net = Net()
    program = lowered(net, X, config=ExecutorchBackendConfig(external_constants=True))
    assert_matches(program, net, *forward([X], [X * 2]))
    assert len(program.buffer) < 4000
    program.write_tensor_data_to_file(tmp_path)
    (file,) = tmp_path.iterdir()
    assert sorted(read_ptd(file).entries) == [
        "first.bias", "first.weight", "second.bias", "second.weight",
    ]  # fmt: skip


def test_weights_by_tag(tmp_path: Path):
    net = Net()
    config = ExecutorchBackendConfig(external_constants=lambda node: "big" if "first_weight" in node.name else None)
    program = lowered(net, X, config=config)
    program.write_tensor_data_to_file(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["big.ptd"]
    assert net.first.weight.detach().numpy().tobytes() in (tmp_path / "big.ptd").read_bytes()
    assert net.second.weight.detach().numpy().tobytes() in program.buffer
    (actual,) = run_method(program.buffer, [X], ptd=tmp_path / "big.ptd")
    torch.testing.assert_close(actual, net(X))


def test_other_weights_for_the_same_program():
    net, other = Net(), Net()
    config = ExecutorchBackendConfig(external_constants=True)
    program, retrained = lowered(net, X, config=config), lowered(other, X, config=config)
    assert program.buffer == retrained.buffer
    assert_matches(retrained, other, *forward([X]))


CONSTANTS = {
    "integer": -(2**40),
    "number": 0.1,
    "infinity": math.inf,
    "truth": True,
    "text": "ä sentence",
    "tensor": torch.arange(6, dtype=torch.int16).reshape(2, 3),
    "list": [1, 2.5, False],
    "nested": {"sizes": (3, 4), "table": torch.eye(2)},
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_methods_of_every_type_beside_a_method(name: str):
    net = Net()
    program = lowered(net, X, constant_methods=CONSTANTS)
    assert program.config_methods == set(CONSTANTS)
    expected = torch.utils._pytree.tree_leaves(CONSTANTS[name])
    result, _ = run_methods(program.buffer, [(name, []), ("forward", [X])])
    assert len(result) == len(expected)
    for actual, wanted in zip(result, expected):
        if isinstance(wanted, torch.Tensor):
            assert torch.equal(actual, wanted) and actual.dtype == wanted.dtype
        else:
            assert actual == wanted and type(actual) is type(wanted)


def test_a_constant_of_another_type_is_refused():
    with pytest.raises(LoweringError, match="constant method 'made'|'made'"):
        lowered(Net(), X, constant_methods={"made": object()})
