"""Tensors live apart from graphs: mapped from files, supplied by checkpoints, checked by name, shape and dtype."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rules_executorch.lowering.errors import InvalidFileError, LoweringError
from rules_executorch.lowering.interchange import load_program, save_program
from safetensors.torch import load_file, save_file
from torch import nn
from torch.export import ExportedProgram


class Tied(nn.Module):
    """Two names of one weight, a buffer of each kind, and a constant in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.out = nn.Linear(8, 10, bias=False)
        self.out.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("position", torch.arange(8.0), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(ids) * self.scale + self.position + torch.tensor([1.0]))


IDS = torch.tensor([[1, 2, 3]])


def exported(module: nn.Module) -> ExportedProgram:
    return torch.export.export(module, (IDS,))


def test_what_a_checkpoint_supplies_is_in_neither_file(tmp_path: Path):
    module = Tied()
    save_program(exported(module), tmp_path / "g", tmp_path / "c", leave_out=module.state_dict().keys())
    assert sorted(load_file(tmp_path / "c")) == ["lifted_tensor_0", "position"]


def test_the_files_do_not_depend_on_values_that_a_checkpoint_supplies(tmp_path: Path):
    for name in ("one", "other"):
        module = Tied()
        save_program(exported(module), tmp_path / f"{name}.g", tmp_path / f"{name}.c", leave_out=module.state_dict())
    assert (tmp_path / "one.g").read_bytes() == (tmp_path / "other.g").read_bytes()
    assert (tmp_path / "one.c").read_bytes() == (tmp_path / "other.c").read_bytes()


@pytest.mark.parametrize("name", ["embedding.weight", "out.weight"])
def test_a_tied_weight_is_found_by_any_of_its_names(name: str, tmp_path: Path):
    module = Tied()
    save_program(exported(module), tmp_path / "g", tmp_path / "c", leave_out=module.state_dict())
    save_file({name: module.out.weight.detach(), "scale": module.scale}, tmp_path / "weights")
    loaded = load_program(tmp_path / "g", [tmp_path / "c", tmp_path / "weights"])
    torch.testing.assert_close(loaded.module()(IDS), module(IDS))


def test_missing_and_misfitting_tensors_are_named_with_the_nearest(tmp_path: Path):
    module = Tied()
    save_program(exported(module), tmp_path / "g", tmp_path / "c", leave_out=module.state_dict())
    save_file({"embeding.weight": torch.zeros(10, 8), "scale": torch.zeros(2)}, tmp_path / "weights")
    with pytest.raises(LoweringError) as error:
        load_program(tmp_path / "g", [tmp_path / "c", tmp_path / "weights"])
    assert "'embedding.weight' is missing; did you mean 'embeding.weight'?" in str(error.value)
    assert "'scale' is float32[2] in weights, but float32[] in the model" in str(error.value)


def test_another_dtype_is_an_error(tmp_path: Path):
    module = Tied()
    save_program(exported(module), tmp_path / "g", tmp_path / "c", leave_out=module.state_dict())
    save_file({"out.weight": torch.zeros(10, 8, dtype=torch.float16), "scale": torch.tensor(1.0)}, tmp_path / "weights")
    with pytest.raises(LoweringError, match=r"is float16\[10, 8\] in weights, but float32\[10, 8\] in the model"):
        load_program(tmp_path / "g", [tmp_path / "c", tmp_path / "weights"])


def test_tensors_are_mapped_not_read(tmp_path: Path):
    program = torch.export.export(nn.Linear(2048, 2048), (torch.zeros(1, 2048),))
    save_program(program, tmp_path / "g", tmp_path / "constants.safetensors")
    loaded = load_program(tmp_path / "g", [tmp_path / "constants.safetensors"])
    address = loaded.state_dict["weight"].data_ptr()
    (mapping,) = [line for line in Path("/proc/self/maps").read_text().splitlines() if _spans(line, address)]
    assert mapping.endswith("constants.safetensors")


def _spans(line: str, address: int) -> bool:
    start, _, end = line.split()[0].partition("-")
    return int(start, 16) <= address < int(end, 16)


def test_writing_to_a_mapped_tensor_does_not_change_the_file(tmp_path: Path):
    module = Tied()
    save_program(exported(module), tmp_path / "g", tmp_path / "c")
    before = (tmp_path / "c").read_bytes()
    loaded = load_program(tmp_path / "g", [tmp_path / "c"])
    loaded.state_dict["scale"].zero_()
    assert (tmp_path / "c").read_bytes() == before


def test_tied_weights_are_stored_once_and_stay_one(tmp_path: Path):
    save_program(exported(Tied()), tmp_path / "g", tmp_path / "c")
    assert "out.weight" not in load_file(tmp_path / "c")
    state = load_program(tmp_path / "g", [tmp_path / "c"]).state_dict
    assert state["out.weight"].data_ptr() == state["embedding.weight"].data_ptr()


def test_memory_layout_is_kept(tmp_path: Path):
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    program = torch.export.export(module, (torch.randn(1, 3, 8, 8),))
    save_program(program, tmp_path / "g", tmp_path / "c")
    weight = load_program(tmp_path / "g", [tmp_path / "c"]).state_dict["weight"]
    assert weight.stride() == module.weight.stride()
    assert torch.equal(weight, module.weight)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.uint16, torch.bool])
def test_constants_of_every_dtype_come_back(dtype: torch.dtype, tmp_path: Path):
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("value", torch.tensor([[1, 0, 3]]).to(dtype))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.value

    save_program(torch.export.export(Constant(), (torch.zeros(1),)), tmp_path / "g", tmp_path / "c")
    loaded = load_program(tmp_path / "g", [tmp_path / "c"])
    assert torch.equal(loaded.state_dict["value"], torch.tensor([[1, 0, 3]]).to(dtype))


def test_a_file_that_is_not_safetensors_is_named(tmp_path: Path):
    save_program(exported(Tied()), tmp_path / "g", tmp_path / "c")
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes()[:-5])
    with pytest.raises(InvalidFileError, match="c: not a safetensors file: "):
        load_program(tmp_path / "g", [tmp_path / "c"])


def test_an_absent_file_is_named(tmp_path: Path):
    save_program(exported(Tied()), tmp_path / "g", tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="absent"):
        load_program(tmp_path / "g", [tmp_path / "absent"])
