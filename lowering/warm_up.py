"""Takes a small model all the way to a program, so that what is slow the first time is done.

For processes that wait to export and lower many models: torch, sympy and the engine itself make most of
their tables when they are first used. Nothing of the small model stays behind, and random numbers
that are drawn later are the same as without it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_model
from torch import Tensor, nn

from .command.main import main
from .model import Method, Model

_WIDTH = 8
_LENGTH = torch.export.Dim("warm_up_length", min=1, max=32)


class _Small(nn.Module):
    """An encoder with attention and a decoder with a gate: operators that most models have, over a dynamic length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, _WIDTH)
        self.positions = nn.Parameter(torch.randn(32, _WIDTH))
        self.norm = nn.LayerNorm(_WIDTH)
        self.first, self.second = nn.Linear(_WIDTH, _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.gate = nn.Linear(2 * _WIDTH, _WIDTH)

    def encode(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embedding(tokens) + self.positions[: tokens.shape[1]])
        batch, length, width = x.shape
        heads = self.first(x).view(batch, length, 2, width // 2).transpose(1, 2)
        weights = torch.softmax(torch.matmul(heads, heads.transpose(2, 3)) * 0.5, dim=-1)
        mixed = torch.matmul(weights, heads).transpose(1, 2).reshape(batch, length, width)
        return x + self.second(nn.functional.gelu(mixed))

    def decode(self, memory: Tensor, state: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        query = torch.tanh(self.first(self.embedding(token)) + state).unsqueeze(1)
        weights = torch.softmax(torch.bmm(query, memory.transpose(1, 2)), dim=-1)
        seen = torch.bmm(weights, memory).squeeze(1)
        gate = torch.sigmoid(self.gate(torch.cat((seen, state), dim=1)))
        state = seen + gate * (state - seen)
        return nn.functional.linear(torch.relu(state), self.embedding.weight), state


def small_model() -> Model:
    """The model that warm_up exports and lowers."""
    tokens = torch.zeros(1, 5, dtype=torch.int64)
    memory, state = torch.zeros(1, 5, _WIDTH), torch.zeros(1, _WIDTH)
    return Model(
        _Small(),
        {
            "encode": Method((tokens,), dynamic_shapes={"tokens": {1: _LENGTH}}),
            "decode": Method(
                (memory, state, tokens[:, 0]), dynamic_shapes={"memory": {1: _LENGTH}, "state": None, "token": None}
            ),
        },
    )


def warm_up() -> None:
    """Export and lower the small model by the commands that builds run.

    Raises:
        RuntimeError: it cannot be lowered.
    """
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as name:
        _lower_small_model(Path(name))


def _lower_small_model(folder: Path) -> None:
    model = small_model()
    save_model(model.module, str(folder / "weights.safetensors"))
    tensors = model.module.state_dict()
    names = {name: {"dtype": "F32", "shape": list(tensor.shape)} for name, tensor in tensors.items()}
    (folder / "names.json").write_text(json.dumps(names))
    methods = {}
    for method in model.methods:
        graph, constants = folder / f"{method}.edge", folder / f"{method}.safetensors"
        arguments = ["--model", f"{__name__}:small_model", "--method", method, "--checkpoint-names"]
        _run("export", *arguments, folder / "names.json", "--graph", graph, "--constants", constants)
        methods[method] = {"graph": str(graph), "constants": str(constants), "lowering": []}
    config = {"methods": methods, "backends": {}, "recipe": None, "weights": str(folder / "weights.safetensors")}
    (folder / "config.json").write_text(json.dumps({**config, "constant_methods": {}, "options": {}}))
    _run("lower", "--config", folder / "config.json", "--out", folder / "x.pte", "--report", folder / "x.json")


def _run(*arguments: object) -> None:
    if status := main([str(argument) for argument in arguments]):
        raise RuntimeError(f"{arguments[0]} of the small model ended with status {status}")
