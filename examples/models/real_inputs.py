"""Real inputs for both methods: held-out dates of many lengths, and what decoding them goes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from characters import END, START, encode_text
from embedding import WIDTH
from held_out import held_out_dates

COUNT = 200

Inputs = list[tuple[torch.Tensor, ...]]


def encode_and_decode(methods: Mapping[str, Callable]) -> dict[str, Inputs]:
    """The inputs of `encode` and `decode` for COUNT dates; of each date's decoding one step, each time another."""
    encode_inputs: Inputs = []
    decode_inputs: Inputs = []
    for index, date in enumerate(held_out_dates()[:COUNT]):
        characters = torch.tensor([encode_text(date.text)])
        memory = methods["encode"](characters)
        state = torch.zeros(1, WIDTH)
        emitted = [START, *date.iso.encode(), END]
        step = index % (len(emitted) - 1)
        for token in emitted[:step]:
            _, state = methods["decode"](memory, state, torch.tensor([token]))
        encode_inputs.append((characters,))
        decode_inputs.append((memory, state, torch.tensor([emitted[step]])))
    return {"encode": encode_inputs, "decode": decode_inputs}
