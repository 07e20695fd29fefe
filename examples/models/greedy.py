"""Greedy decoding with the Python model, many dates at once: what the app is to agree with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from characters import START, TARGET_LENGTH, decode_text, encode_text
from dates import EncoderDecoder
from embedding import WIDTH


@torch.no_grad()
def normalize(model: EncoderDecoder, texts: Sequence[str]) -> list[str]:
    """What the model makes of each text. Texts of one length share a batch, so none is padded."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for index, text in enumerate(texts):
        by_length[len(text)].append(index)
    answers = [""] * len(texts)
    for indices in by_length.values():
        memory = model.encode(torch.tensor([encode_text(texts[index]) for index in indices]))
        state = torch.zeros(len(indices), WIDTH)
        previous = torch.full((len(indices),), START)
        steps = []
        for _ in range(TARGET_LENGTH):
            scores, state = model.decode(memory, state, previous)
            previous = scores.argmax(dim=1)
            steps.append(previous)
        for index, tokens in zip(indices, torch.stack(steps, dim=1).tolist()):
            answers[index] = decode_text(tokens)
    return answers
