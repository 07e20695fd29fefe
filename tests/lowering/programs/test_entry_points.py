"""Several methods of one module, integers as inputs, and state that methods share."""

from __future__ import annotations

import copy

import pytest
import torch
from rules_executorch.lowering import ExecutorchBackendConfig, MemoryPlanningPass, Method, Model
from support.modules import Apply
from support.official_runtime import run_methods
from support.programs import assert_matches, forward, lowered, plan_of
from torch import nn
from torch.export import Dim

SHARED = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True))


class Speech(nn.Module):
    """Three entry points, of which one calls another and one is called otherwise than in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.mix, self.out = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20)

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.mix(self.embedding(tokens)))

    def decode(self, hidden: torch.Tensor, temperature: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.out(hidden) / temperature
        return {"token": logits.argmax(-1), "scores": logits}

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(tokens), torch.ones(()))["token"]


def test_entry_points_are_the_modules_methods_and_share_their_weights():
    torch.manual_seed(0)
    net, tokens, hidden = Speech(), torch.tensor([[1, 19, 4]]), torch.randn(2, 8)
    length = {1: Dim("length", min=1, max=12)}
    model = Model(
        net,
        {
            "encode": Method((tokens,), dynamic_shapes=(length,)),
            "decode": Method((hidden, torch.tensor(1.0))),
            "forward": Method((tokens,), dynamic_shapes=(length,)),
        },
    )
    program = lowered(model)
    assert program.methods == {"encode", "decode", "forward"}
    longer = torch.randint(0, 20, (1, 12))
    assert_matches(
        program, net, ("encode", (tokens,)), ("decode", (hidden, torch.tensor(0.5))), ("forward", (longer,)),
        ("encode", (longer,)), ("forward", (tokens,)),
    )  # fmt: skip
    weights = sum(p.numel() * 4 for p in net.parameters())
    assert program.buffer.count(net.mix.weight.detach().numpy().tobytes()) == 1 and len(program.buffer) < weights + 8000


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_integers_as_inputs_and_outputs(dtype: torch.dtype):
    def compute(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + y, x * 2.5, torch.where(x > y, x, y), x.to(torch.float32).mean(), x == y

    x, y = torch.tensor([[1, 0, 3], [1, 1, 0]]).to(dtype), torch.tensor([1, 0, 7]).to(dtype)
    assert_matches(lowered(Apply(compute), x, y), Apply(compute), *forward([x, y], [x.flip(1), y]))


def test_a_number_in_a_tensor_decides_sizes_and_branches():
    class Take(nn.Module):
        def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
            n = count.item()
            torch._check(n >= 0)
            torch._check(n <= x.shape[0])
            return torch.cat([x[:n] * 2, torch.ones(n, 3)])

    x = torch.randn(5, 3)
    assert_matches(lowered(Take(), x, torch.tensor(2)), Take(), *forward(*([x, torch.tensor(n)] for n in (2, 5, 0, 1))))


class Decoder(nn.Module):
    """Attention over a cache that `prefill` fills with a prompt and `decode` extends token by token."""

    def __init__(self, length: int = 16, width: int = 8):
        super().__init__()
        self.embedding, self.qkv, self.out = nn.Embedding(30, width), nn.Linear(width, 3 * width), nn.Linear(width, 30)
        self.register_buffer("keys", torch.zeros(length, width))
        self.register_buffer("values", torch.zeros(length, width))
        self.register_buffer("filled", torch.zeros(1, dtype=torch.long))
        self.register_buffer("places", torch.arange(length), persistent=False)

    def attend(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.embedding(tokens)).chunk(3, -1)
        at = start + torch.arange(tokens.shape[0])
        self.keys.index_copy_(0, at, key)
        self.values.index_copy_(0, at, value)
        mask = (self.places[None, :] > at[:, None]) * -1e9
        weights = torch.softmax(query @ self.keys.T / 8**0.5 + mask, -1)
        return self.out(weights @ self.values)

    def prefill(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.attend(tokens, torch.zeros(1, dtype=torch.long))
        self.filled.fill_(tokens.shape[0])
        return logits[-1]

    def decode(self, token: torch.Tensor) -> torch.Tensor:
        logits = self.attend(token, self.filled)
        self.filled.add_(1)
        return logits[0]


def decoder() -> tuple[Decoder, Model]:
    torch.manual_seed(1)
    net = Decoder()
    prompt = {0: Dim("prompt", min=2, max=10)}
    methods = {
        "prefill": Method((torch.tensor([3, 1, 4]),), dynamic_shapes=(prompt,)),
        "decode": Method((torch.tensor([5]),)),
    }
    return net, Model(net, methods)


def test_a_cache_that_prefill_fills_and_decode_extends():
    net, model = decoder()
    program = lowered(model, config=SHARED)
    steps = [("decode", (torch.tensor([token]),)) for token in (9, 2, 6)]
    prompts = [("prefill", (torch.tensor(tokens),)) for tokens in ([3, 1, 4, 1, 5], [7, 7])]
    # In this order `decode`, which comes first by name, is loaded after `prefill` has run.
    assert_matches(program, net, prompts[0], *steps, prompts[1], *steps)


def test_a_cache_that_is_not_declared_shared_is_each_methods_own():
    net, model = decoder()
    program = lowered(model)
    token, prompt = torch.tensor([9]), torch.tensor([3, 1, 4])
    results = run_methods(program.buffer, [("prefill", [prompt]), ("decode", [token]), ("prefill", [prompt])])
    alone = copy.deepcopy(net)
    torch.testing.assert_close(results[1][0], alone.decode(token))  # as if there had been no prompt
    torch.testing.assert_close(results[0], results[2])
    shared = plan_of(lowered(model, config=SHARED), "decode").non_const_buffer_sizes
    assert shared[2] < plan_of(program, "prefill").non_const_buffer_sizes[2]
