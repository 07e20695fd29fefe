"""The method `encode`: the characters of a written date → memory, once per date."""

from __future__ import annotations

import math

import torch
from characters import MAX_SOURCE_LENGTH
from embedding import EXAMPLE_LENGTH, LENGTH, WIDTH, character_embedding
from rules_executorch.lowering.model import Method, Model
from torch import Tensor, nn

LAYERS = 2
HEADS = 4


class Attention(nn.Module):
    """Every character looks at every other: [batch, length, width] → the same."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width // HEADS)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def heads(x: Tensor) -> Tensor:
            return x.view(batch, length, HEADS, width // HEADS).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        weights = torch.softmax(torch.matmul(query, key.transpose(2, 3)) * self.scale, dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        return self.output(mixed)


class Layer(nn.Module):
    """A transformer layer with normalisation in front of each half."""

    def __init__(self, width: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Encoder(nn.Module):
    """Embedded characters float32[batch, length, WIDTH] → memory of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(MAX_SOURCE_LENGTH, WIDTH) * WIDTH**-0.5)
        self.layers = nn.Sequential(*(Layer(WIDTH) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, embedded: Tensor) -> Tensor:
        length = embedded.shape[1]
        return self.norm(self.layers(embedded + self.positions[:length]))


class DateEncoder(nn.Module):
    """The part of the model that `encode` needs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = character_embedding()
        self.encoder = Encoder()

    def encode(self, characters: Tensor) -> Tensor:
        """Token ids int64[batch, length] → memory float32[batch, length, WIDTH]."""
        return self.encoder(self.embedding(characters))


def encode_method() -> Method:
    """`encode` for one date at a time."""
    characters = torch.zeros(1, EXAMPLE_LENGTH, dtype=torch.int64)
    return Method((characters,), dynamic_shapes={"characters": {1: LENGTH}})


def date_encoder() -> Model:
    """`encode` alone, so that building it depends on no code of `decode`'s."""
    return Model(DateEncoder(), {"encode": encode_method()})
