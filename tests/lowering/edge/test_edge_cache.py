"""Edge programs are found again by content, and the bytes of the program are the same with them and without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rules_executorch.lowering.command.main import main
from rules_executorch.lowering.edge import edge_cache
from rules_executorch.lowering.interchange import load, save_program
from safetensors.torch import save_file

from support import zoo

# Control flow, batch norms, state that is written, dynamic sizes, and weights of two names.
FEW = ("conditional_branch", "conformer_block", "decoder_with_kv_cache", "detection_head_dynamic", "tied_embeddings")


class Made:
    """The edge programs that were made because none was kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        pack = edge_cache.pack_program

        def counted(*arguments):  # type: ignore[no-untyped-def]
            self.count += 1
            return pack(*arguments)

        monkeypatch.setattr(edge_cache, "pack_program", counted)

    def since_last_asked(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


class Scaled(torch.nn.Module):
    """`weight * 2` and the sum with `bias` are folded: the program has their values, not the weights'."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.bias = torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Parameter(torch.randn(4))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ (self.weight * 2 + self.bias)) * self.factor


class Workspace:
    """A folder with a model's files, in which it is lowered again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "known").mkdir()
        self.config: dict = {"methods": {}, "backends": {}, "weights": None}

    def export(self, name: str, program: torch.export.ExportedProgram, *, weights: bool = False) -> None:
        """Write a method's files; with `weights`, its parameters to a checkpoint."""
        graph, constants = self.folder / f"{name}.edge", self.folder / f"{name}.safetensors"
        if weights:
            checkpoint = self.folder / "weights.safetensors"
            save_file({key: value.detach() for key, value in program.state_dict.items()}, checkpoint)
            self.config["weights"] = str(checkpoint)
        save_program(program, graph, constants, leave_out=program.state_dict if weights else ())
        self.config["methods"][name] = {"graph": str(graph), "constants": str(constants), "lowering": []}

    def lower(self, *, keep: bool = True) -> tuple[bytes, bytes]:
        """The program and the report; with what earlier calls kept, if `keep`."""
        out, report, new = self.folder / "x.pte", self.folder / "x.json", self.folder / "new"
        folders = ["--known", str(self.folder / "known"), "--keep", str(new)] if keep else []
        arguments = ["--config", json.dumps(self.config), "--out", str(out), "--report", str(report)]
        assert main(["lower", *arguments, *folders]) == 0
        for file in new.iterdir() if new.is_dir() else ():
            if file.stat().st_size:
                file.replace(self.folder / "known" / file.name)
        return out.read_bytes(), report.read_bytes()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    yield Workspace(tmp_path)


def scaled(factor: float) -> torch.export.ExportedProgram:
    return torch.export.export(Scaled(factor), (torch.randn(3, 4),))


@pytest.mark.parametrize("name", FEW)
def test_programs_are_the_same_with_what_was_kept_and_without(name: str, workspace: Workspace, made: Made) -> None:
    case = zoo.make(name)
    workspace.export("forward", torch.export.export(case.module, case.inputs, dynamic_shapes=case.dynamic_shapes))
    without = workspace.lower(keep=False)
    assert made.since_last_asked() == 0
    assert workspace.lower() == without
    assert made.since_last_asked() == 1
    assert workspace.lower() == without
    assert made.since_last_asked() == 0


def test_after_an_edit_only_its_method_is_made_again(workspace: Workspace, made: Made) -> None:
    workspace.export("one", scaled(2.0))
    workspace.export("two", scaled(3.0))
    workspace.lower()
    assert made.since_last_asked() == 2
    workspace.export("two", scaled(4.0))
    assert workspace.lower() == workspace.lower(keep=False)
    assert made.since_last_asked() == 1


def test_what_is_kept_of_a_method_is_found_without_its_exported_graph(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.export("forward", scaled(2.0))
    before = workspace.lower()

    def decode(document: object, tensors: object) -> None:
        raise AssertionError("the exported graph is decoded")

    monkeypatch.setattr(load, "decode_program", decode)
    assert workspace.lower() == before


def test_other_weights_are_folded_anew(workspace: Workspace, made: Made) -> None:
    program = scaled(2.0)
    workspace.export("forward", program, weights=True)
    before = workspace.lower()
    with torch.no_grad():
        program.state_dict["bias"][0] += 1
    workspace.export("forward", program, weights=True)
    after = workspace.lower()
    assert after != before
    assert after == workspace.lower(keep=False)
    assert made.since_last_asked() == 2


def test_what_the_target_runtime_has_is_part_of_it(workspace: Workspace, made: Made) -> None:
    workspace.export("forward", scaled(2.0))
    workspace.lower()
    workspace.config["options"] = {"operators": ["stock", "quantized"]}
    workspace.lower()
    assert made.since_last_asked() == 2


def test_a_damaged_one_is_made_again(workspace: Workspace, made: Made) -> None:
    workspace.export("forward", scaled(2.0))
    without = workspace.lower()
    made.since_last_asked()
    for file in (workspace.folder / "known").iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    assert workspace.lower() == without
    assert made.since_last_asked() == 1
