"""The method `decode`: memory, state and the previous character → the next, once per output character."""

from __future__ import annotations

import math

import torch
from characters import START
from embedding import EXAMPLE_LENGTH, LENGTH, WIDTH, character_embedding
from rules_executorch.lowering.model import Method, Model
from torch import Tensor, nn


class Decoder(nn.Module):
    """A gated recurrent unit that looks at the memory through attention."""

    def __init__(self) -> None:
        super().__init__()
        self.query_of_previous = nn.Linear(WIDTH, WIDTH)
        self.query_of_state = nn.Linear(WIDTH, WIDTH)
        self.reset = nn.Linear(3 * WIDTH, WIDTH)
        self.update = nn.Linear(3 * WIDTH, WIDTH)
        self.candidate = nn.Linear(3 * WIDTH, WIDTH)
        self.output = nn.Linear(2 * WIDTH, WIDTH)
        self.scale = 1 / math.sqrt(WIDTH)

    def forward(self, memory: Tensor, state: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            memory: the encoder's output, float32[batch, length, WIDTH].
            state: float32[batch, WIDTH]; zeros before the first character.
            previous: the embedded previous character, float32[batch, WIDTH].

        Returns:
            What the next character's embedding should be like, and the next state, float32[batch, WIDTH] each.
        """
        query = torch.tanh(self.query_of_previous(previous) + self.query_of_state(state)).unsqueeze(1)
        weights = torch.softmax(torch.bmm(query, memory.transpose(1, 2)) * self.scale, dim=-1)
        seen = torch.bmm(weights, memory).squeeze(1)

        inputs = torch.cat((previous, seen, state), dim=1)
        reset = torch.sigmoid(self.reset(inputs))
        update = torch.sigmoid(self.update(inputs))
        candidate = torch.tanh(self.candidate(torch.cat((previous, seen, reset * state), dim=1)))
        state = candidate + update * (state - candidate)
        return self.output(torch.cat((state, seen), dim=1)), state


class DateDecoder(nn.Module):
    """The part of the model that `decode` needs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = character_embedding()
        self.decoder = Decoder()

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


def decode_method() -> Method:
    """`decode` for one date at a time."""
    memory, state, previous = torch.zeros(1, EXAMPLE_LENGTH, WIDTH), torch.zeros(1, WIDTH), torch.tensor([START])
    return Method(
        (memory, state, previous), dynamic_shapes={"memory": {1: LENGTH}, "state": None, "previous": None}
    )


def date_decoder() -> Model:
    """`decode` alone, so that building it depends on no code of `encode`'s."""
    return Model(DateDecoder(), {"decode": decode_method()})
