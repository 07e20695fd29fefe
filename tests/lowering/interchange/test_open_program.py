"""A program that is only opened has its tensors; its graph is decoded when somebody asks for it."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from rules_executorch.lowering.errors import InvalidFileError, LoweringError
from rules_executorch.lowering.interchange import load, open_program, save_program
from torch.export import ExportedProgram

X = torch.ones(2, 4)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.offset


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, list[Path]]:
    save_program(torch.export.export(Layer(), (X,)), tmp_path / "graph", tmp_path / "constants")
    return tmp_path / "graph", [tmp_path / "constants"]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was decoded so far."""
    documents: list[object] = []
    original = load.decode_program

    def decode(document, tensors):
        documents.append(document)
        return original(document, tensors)

    monkeypatch.setattr(load, "decode_program", decode)
    return documents


def test_tensors_need_no_graph(saved: tuple[Path, list[Path]], decoded: list[object]) -> None:
    program = open_program(*saved)
    assert isinstance(program, ExportedProgram)
    state, constants = program.state_dict, program.constants
    assert not decoded
    whole = load.load_program(*saved)
    assert state.keys() == whole.state_dict.keys() and constants.keys() == whole.constants.keys() == {"offset"}
    torch.testing.assert_close({**state, **constants}, {**whole.state_dict, **whole.constants})


def test_whatever_else_is_asked_decodes_it_once(saved: tuple[Path, list[Path]], decoded: list[object]) -> None:
    program = open_program(*saved)
    weight = program.state_dict["layer.weight"]
    assert str(program.graph) == str(load.load_program(*saved).graph)
    assert len(decoded) == 2
    expected = torch.nn.functional.linear(X, weight, program.state_dict["layer.bias"]) + 1
    torch.testing.assert_close(program.module()(X), expected)
    assert type(program) is ExportedProgram and program.state_dict["layer.weight"] is weight
    assert len(decoded) == 2


def test_a_copy_is_a_program(saved: tuple[Path, list[Path]]) -> None:
    for copied in (copy.copy(open_program(*saved)), copy.deepcopy(open_program(*saved))):
        assert copied.module()(X).shape == X.shape


def test_a_malformed_graph_is_named_when_it_is_decoded(saved: tuple[Path, list[Path]]) -> None:
    document = json.loads(saved[0].read_bytes())
    document["graph"]["nodes"][0][1] = "no name"
    saved[0].write_text(json.dumps(document))
    program = open_program(*saved)
    with pytest.raises(InvalidFileError, match="graph: edge program: 'no name' is no name for a node"):
        program.graph_module
    with pytest.raises(InvalidFileError, match="graph: edge program: 'no name' is no name for a node"):
        load.load_program(*saved)


def test_missing_tensors_are_named_at_once(saved: tuple[Path, list[Path]]) -> None:
    with pytest.raises(LoweringError, match="'layer.weight' is missing"):
        open_program(saved[0], [])
