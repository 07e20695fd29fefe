"""Trains the date normaliser from a seed and writes its weights: `python train.py --out dates.safetensors`.

The same command on the same machine and release of torch gives the same weights: one thread,
seeded data, seeded weights. It takes about eight minutes of one core.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from characters import END, START, TARGET_LENGTH, VOCABULARY_SIZE, encode_text
from dates import EncoderDecoder
from embedding import WIDTH
from greedy import normalize
from held_out import held_out_dates
from rules_executorch.lowering.files import replacing
from safetensors.torch import save_file
from torch import Tensor, nn
from written_dates import WrittenDate, written_dates

BATCH = 128
PEAK_LEARNING_RATE = 3e-3
WARM_UP_STEPS = 300


def batches(seed: int) -> Iterator[list[WrittenDate]]:
    """Endless batches of training dates of about the same work, each of texts of one length."""
    by_length: dict[int, list[WrittenDate]] = {}
    for date in written_dates(seed, held_out=False):
        batch = by_length.setdefault(len(date.text), [])
        batch.append(date)
        if len(batch) == BATCH:
            yield by_length.pop(len(date.text))


def loss_of(model: EncoderDecoder, batch: list[WrittenDate]) -> Tensor:
    """Cross entropy per output character, each step given the true previous character."""
    memory = model.encode(torch.tensor([encode_text(date.text) for date in batch]))
    target = torch.tensor([[START, *date.iso.encode(), END] for date in batch])
    state = torch.zeros(len(batch), WIDTH)
    scores = []
    for step in range(TARGET_LENGTH):
        score, state = model.decode(memory, state, target[:, step])
        scores.append(score)
    return nn.functional.cross_entropy(torch.stack(scores, dim=1).reshape(-1, VOCABULARY_SIZE), target[:, 1:].reshape(-1))


def learning_rate(step: int, steps: int) -> float:
    """A linear warm-up, then a half cosine down to a hundredth of the peak, as factors of it."""
    if step < WARM_UP_STEPS:
        return (step + 1) / WARM_UP_STEPS
    done = torch.tensor((step - WARM_UP_STEPS) / max(1, steps - WARM_UP_STEPS))
    return float(0.01 + 0.99 * 0.5 * (1 + torch.cos(torch.pi * done)))


def exact_match(model: EncoderDecoder, dates: list[WrittenDate]) -> float:
    """The part of `dates` that the model gets exactly right, of 1."""
    answers = normalize(model, [date.text for date in dates])
    return sum(answer == date.iso for answer, date in zip(answers, dates)) / len(dates)


def train(steps: int, seed: int) -> EncoderDecoder:
    """A trained model; progress goes to stderr."""
    torch.manual_seed(seed)
    model = EncoderDecoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, steps))
    started = time.monotonic()
    for step, batch in enumerate(itertools.islice(batches(seed), steps), 1):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            seconds = time.monotonic() - started
            print(f"step {step}/{steps}  loss {loss.item():.4f}  {seconds:.0f} s", file=sys.stderr, flush=True)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    parser.add_argument("--steps", type=int, default=8000, help="batches of %d dates (default: %%(default)s)" % BATCH)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    model = train(options.steps, options.seed)
    dates = held_out_dates()
    print(f"exact match on {len(dates)} held-out dates: {exact_match(model, dates):.2%}")
    with replacing(options.out) as file:
        save_file(model.state_dict(), file)


if __name__ == "__main__":
    main()
