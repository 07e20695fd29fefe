"""A checkpoint's names are listed without its values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.rules.tools.checkpoint_names import main
from safetensors.numpy import save_file


def listed(checkpoint: Path) -> str:
    out = checkpoint.with_suffix(".json")
    assert main(str(checkpoint), str(out)) == 0
    return out.read_text()


def test_names_types_and_shapes_are_listed(tmp_path: Path) -> None:
    tensors = {"b.weight": numpy.zeros((2, 3), numpy.float32), "a": numpy.zeros((), numpy.int64)}
    save_file(tensors, tmp_path / "m.safetensors", metadata={"format": "pt"})
    assert json.loads(listed(tmp_path / "m.safetensors")) == {
        "a": {"dtype": "I64", "shape": []},
        "b.weight": {"dtype": "F32", "shape": [2, 3]},
    }


def test_a_retrained_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, value in (("one", 1.0), ("two", 2.0)):
        tensors = {"w": numpy.full((4,), value, numpy.float32), "v": numpy.full((1,), value, numpy.float32)}
        save_file(tensors if value == 1.0 else dict(reversed(tensors.items())), tmp_path / f"{name}.safetensors")
    assert listed(tmp_path / "one.safetensors") == listed(tmp_path / "two.safetensors")


@given(data=st.binary(max_size=60) | st.builds(lambda b: len(b).to_bytes(8, "little") + b, st.binary(max_size=40)))
def test_other_bytes_are_refused_in_one_line(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "x").write_bytes(data)
    status = main(str(folder / "x"), str(folder / "out"))
    assert (folder / "out").exists() == (status == 0)
    if status == 0:
        assert isinstance(json.loads((folder / "out").read_text()), dict)


def test_the_message_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"PK\x03\x04 zip, not safetensors")
    assert main(str(tmp_path / "x.safetensors"), str(tmp_path / "out")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "x.safetensors is not a safetensors file" in error
