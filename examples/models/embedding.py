"""What both methods share: the embedding of characters, and the bound on a date's length."""

from __future__ import annotations

from characters import MAX_SOURCE_LENGTH, VOCABULARY_SIZE
from torch import nn
from torch.export import Dim

WIDTH = 80

LENGTH = Dim("length", min=1, max=MAX_SOURCE_LENGTH)
EXAMPLE_LENGTH = 24  # any length within the bound will do to trace with


def character_embedding() -> nn.Embedding:
    """Token ids → float32[..., WIDTH]. Its weight also scores the next character, so it starts small enough for that."""
    embedding = nn.Embedding(VOCABULARY_SIZE, WIDTH)
    nn.init.normal_(embedding.weight, std=WIDTH**-0.5)
    return embedding
