"""Malformed files give one line that names the file: never a traceback of torch's, a hang or a crash."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.lowering.errors import InvalidFileError, LoweringError
from rules_executorch.lowering.interchange import load_program, load_pt2, save_program
from torch import nn
from torch.export import Dim


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state.add_(1)
        branch = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))
        return {"y": self.layer(branch).to(torch.float64) + self.state, "n": torch.zeros(x.shape[0] * 2)}


def program() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (torch.zeros(3, 4),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save_program(program(), folder / "graph", folder / "constants")
    torch.export.save(program(), folder / "program.pt2")
    return folder


def load_changed(saved: Path, content: bytes) -> None:
    """Load a changed graph: it may be fine, or one line must say that it is not."""
    changed = saved / "changed"
    changed.write_bytes(content)
    try:
        load_program(changed, [saved / "constants"])
    except InvalidFileError as error:
        assert "\n" not in str(error) and str(error).startswith(str(changed))
    except LoweringError as error:
        assert "are not the model's" in str(error)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"format": 1}'])
def test_other_files_are_refused(saved: Path, content: bytes):
    (saved / "other").write_bytes(content)
    with pytest.raises(InvalidFileError, match="other: not an edge program: "):
        load_program(saved / "other", [])


def test_another_version_is_named(saved: Path):
    document = json.loads((saved / "graph").read_bytes())
    (saved / "newer").write_text(json.dumps({**document, "version": 2}))
    with pytest.raises(InvalidFileError, match="version 2; this release reads version 1"):
        load_program(saved / "newer", [saved / "constants"])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_flipped_and_missing_bytes(saved: Path, data: st.DataObject):
    content = bytearray((saved / "graph").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(32, 126))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    load_changed(saved, bytes(content))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**70), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.just(["tensor", 0]), st.just(["node", 0]), st.just(["tuple", ["tuple"]]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), VALUES)
def test_any_value_in_any_place(saved: Path, chooser: random.Random, value: Any):
    document = json.loads((saved / "graph").read_bytes())
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chooser.choice(keys)
        if not isinstance(place[key], (dict, list)) or not place[key] or chooser.random() < 0.15:
            break
        place = place[key]
    place[key] = value
    load_changed(saved, json.dumps(document).encode())


def test_an_operator_that_is_unknown_here_is_named(saved: Path):
    content = (saved / "graph").read_text().replace("aten::linear", "mine::linear")
    (saved / "mine").write_text(content)
    with pytest.raises(InvalidFileError, match="operator mine::linear.default is not known here"):
        load_program(saved / "mine", [saved / "constants"])


def test_a_pt2_archive_is_read(saved: Path):
    loaded = load_pt2(saved / "program.pt2")
    x = torch.ones(3, 4)
    assert torch.equal(loaded.module()(x)["n"], torch.zeros(6))


def test_a_pt2_archive_with_pickled_objects_is_refused(saved: Path, tmp_path: Path):
    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "was_run"),)

    torch.save((Runs(),), tmp_path / "hostile")
    with zipfile.ZipFile(saved / "program.pt2") as source, zipfile.ZipFile(tmp_path / "p.pt2", "w") as target:
        for name in source.namelist():
            inputs = "/sample_inputs/" in name
            target.writestr(name, (tmp_path / "hostile").read_bytes() if inputs else source.read(name))
    with pytest.raises(InvalidFileError, match="example inputs are stored as objects"):
        load_pt2(tmp_path / "p.pt2")
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize(
    "size",
    [
        "__import__('os').getpid()",
        "Symbol('s0').func",
        "10**10**10",
        "PowByNatural(10, 10000000)",
        "Pow(Integer(99), Pow(Integer(99), Integer(99)))",
        "open(s0)",
        "",
    ],
)
def test_a_pt2_archive_whose_sizes_are_code_is_refused(saved: Path, tmp_path: Path, size: str):
    with zipfile.ZipFile(saved / "program.pt2") as source, zipfile.ZipFile(tmp_path / "p.pt2", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("models/model.json"):
                document = json.loads(content)
                _replace_sizes(document, size)
                content = json.dumps(document).encode()
            target.writestr(name, content)
    with pytest.raises(InvalidFileError):
        load_pt2(tmp_path / "p.pt2")


def _replace_sizes(data: Any, size: str) -> None:
    if isinstance(data, dict):
        if "expr_str" in data:
            data["expr_str"] = size
        for value in data.values():
            _replace_sizes(value, size)
    elif isinstance(data, list):
        for value in data:
            _replace_sizes(value, size)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damaged_pt2_archives(saved: Path, data: st.DataObject):
    content = bytearray((saved / "program.pt2").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    (saved / "damaged.pt2").write_bytes(content)
    try:
        load_pt2(saved / "damaged.pt2")
    except InvalidFileError as error:
        assert "\n" not in str(error)
