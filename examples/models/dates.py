"""The encoder-decoder that turns written dates into ISO 8601, as a model to build."""

from __future__ import annotations

import torch
from characters import MAX_SOURCE_LENGTH, START, VOCABULARY_SIZE
from decoder import Decoder
from encoder import Encoder
from rules_executorch.lowering.model import Method, Model
from torch import Tensor, nn
from torch.export import Dim

WIDTH = 80


class EncoderDecoder(nn.Module):
    """Two entry points which share the embedding: it is also what scores the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY_SIZE, WIDTH)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)  # small enough to score characters with
        self.encoder = Encoder(WIDTH, MAX_SOURCE_LENGTH)
        self.decoder = Decoder(WIDTH)

    def encode(self, characters: Tensor) -> Tensor:
        """Token ids int64[batch, length] → memory float32[batch, length, WIDTH]."""
        return self.encoder(self.embedding(characters))

    def decode(self, memory: Tensor, state: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        """One output character.

        Args:
            memory: what `encode` gave.
            state: what the last call gave, float32[batch, WIDTH]; zeros at the first.
            previous: the last character's token id int64[batch]; START at the first.

        Returns:
            Scores of the next character float32[batch, VOCABULARY_SIZE], and the next state.
        """
        wanted, state = self.decoder(memory, state, self.embedding(previous))
        return nn.functional.linear(wanted, self.embedding.weight), state


def encoder_decoder() -> Model:
    """The model and its two methods, for one date at a time."""
    length = Dim("length", min=1, max=MAX_SOURCE_LENGTH)
    example = 24
    characters = torch.zeros(1, example, dtype=torch.int64)
    memory, state, previous = torch.zeros(1, example, WIDTH), torch.zeros(1, WIDTH), torch.tensor([START])
    return Model(
        EncoderDecoder().eval(),
        {
            "encode": Method((characters,), dynamic_shapes={"characters": {1: length}}),
            "decode": Method(
                (memory, state, previous),
                dynamic_shapes={"memory": {1: length}, "state": None, "previous": None},
            ),
        },
    )
