"""The encoder: embedded characters of a written date → memory, once per date."""

from __future__ import annotations

import math

import torch
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
    """Embedded characters float32[batch, length, width] → memory of the same shape."""

    def __init__(self, width: int, max_length: int):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(max_length, width) * width**-0.5)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(width)

    def forward(self, embedded: Tensor) -> Tensor:
        length = embedded.shape[1]
        return self.norm(self.layers(embedded + self.positions[:length]))
