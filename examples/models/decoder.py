"""The decoder: memory, state and the previous character → the next, once per output character."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Decoder(nn.Module):
    """A gated recurrent unit that looks at the memory through attention."""

    def __init__(self, width: int):
        super().__init__()
        self.query_of_previous = nn.Linear(width, width)
        self.query_of_state = nn.Linear(width, width)
        self.reset = nn.Linear(3 * width, width)
        self.update = nn.Linear(3 * width, width)
        self.candidate = nn.Linear(3 * width, width)
        self.output = nn.Linear(2 * width, width)
        self.scale = 1 / math.sqrt(width)

    def forward(self, memory: Tensor, state: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            memory: the encoder's output, float32[batch, length, width].
            state: float32[batch, width]; zeros before the first character.
            previous: the embedded previous character, float32[batch, width].

        Returns:
            What the next character's embedding should be like, and the next state, float32[batch, width] each.
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
