"""Models of linear layers: perceptrons, factorisations, mixtures, normalisations."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .case import Case, Lambda


def mlp() -> Case:
    return Case(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), (torch.randn(2, 16),))


def mlp_dynamic_batch() -> Case:
    return Case(
        nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4), nn.Softmax(-1)),
        (torch.randn(3, 16),),
        ((torch.randn(1, 16),), (torch.randn(8, 16),)),
        ({0: Dim("batch", min=1, max=8)},),
    )


def deep_residual_mlp() -> Case:
    class Block(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x):
            return x + self.down(F.silu(self.up(self.norm(x))))

    return Case(nn.Sequential(*[Block(24) for _ in range(6)]), (torch.randn(4, 24),))


def batch_norm_mlp() -> Case:
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.1), nn.Linear(16, 3))
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(0.5, 2)
    return Case(net, (torch.randn(5, 8),))


def autoencoder() -> Case:
    net = nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 2), nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 32), nn.Sigmoid())
    return Case(net, (torch.rand(2, 32),))


def low_rank_adapter() -> Case:
    class LowRank(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(16, 16)
            self.a, self.b = nn.Parameter(torch.randn(16, 2)), nn.Parameter(torch.randn(2, 16))

        def forward(self, x):
            return self.base(x) + 0.5 * (x @ self.a @ self.b)

    return Case(LowRank(), (torch.randn(3, 16),))


def mixture_of_experts() -> Case:
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(16, 4)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in range(4))

        def forward(self, x):
            weight, index = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
            every = torch.stack([expert(x) for expert in self.experts], dim=1)
            chosen = torch.gather(every, 1, index.unsqueeze(-1).expand(-1, -1, every.shape[-1]))
            return (chosen * (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)).sum(1)

    return Case(Mixture(), (torch.randn(6, 16),))


def factorization_machine() -> Case:
    class Machine(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.factors = nn.Embedding(100, 1), nn.Embedding(100, 8)

        def forward(self, fields):
            v = self.factors(fields)
            pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
            return torch.sigmoid(self.linear(fields).sum(1).squeeze(-1) + pairs)

    return Case(Machine(), (torch.randint(0, 100, (3, 5)),))


def two_tower_recommender() -> Case:
    net = Lambda(
        lambda m, user, item: F.cosine_similarity(F.relu(m.user(user)), F.relu(m.item(item)), dim=-1),
        user=nn.Linear(12, 8),
        item=nn.Linear(20, 8),
    )
    return Case(net, (torch.randn(4, 12), torch.randn(4, 20)))


def bag_of_words() -> Case:
    net = Lambda(
        lambda m, tokens, mask: m.head((m.table(tokens) * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)),
        table=nn.Embedding(50, 12),
        head=nn.Linear(12, 3),
    )
    mask = torch.tensor([[1.0, 1, 1, 0], [1, 1, 0, 0]])
    return Case(net, (torch.randint(0, 50, (2, 4)), mask))


def siamese_distance() -> Case:
    net = Lambda(lambda m, a, b: torch.norm(m.tower(a) - m.tower(b), dim=-1), tower=nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
    return Case(net, (torch.randn(3, 8), torch.randn(3, 8)))


def normalizations() -> Case:
    net = Lambda(
        lambda m, x: m.rms(m.layer(x)) + F.normalize(x, dim=-1) + m.group(x.transpose(1, 2)).transpose(1, 2),
        layer=nn.LayerNorm(12),
        rms=nn.RMSNorm(12),
        group=nn.GroupNorm(3, 12),
    )
    return Case(net, (torch.randn(2, 5, 12),))


def activations() -> Case:
    functions = (F.relu6, F.elu, F.selu, F.celu, F.softplus, F.softsign, F.hardswish, F.hardsigmoid, F.hardtanh, F.mish, F.silu,
                 F.gelu, F.leaky_relu, F.logsigmoid, F.tanhshrink, F.softshrink, F.hardshrink)  # fmt: skip
    return Case(Lambda(lambda m, x: torch.stack([f(x) for f in functions])), (torch.randn(4, 6) * 3,))


def gated_linear_units() -> Case:
    net = Lambda(lambda m, x: F.glu(m.a(x), -1) + F.silu(m.b(x)) * m.c(x), a=nn.Linear(8, 16), b=nn.Linear(8, 8), c=nn.Linear(8, 8))
    return Case(net, (torch.randn(3, 8),))


def bilinear() -> Case:
    return Case(nn.Bilinear(6, 5, 4), (torch.randn(3, 6), torch.randn(3, 5)))


def tied_embeddings() -> Case:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(40, 16)
            self.body = nn.Linear(16, 16)

        def forward(self, tokens):
            return F.linear(torch.tanh(self.body(self.table(tokens))), self.table.weight)

    return Case(Tied(), (torch.randint(0, 40, (2, 7)),))


def half_precision_mlp() -> Case:
    return Case(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).half(), (torch.randn(2, 8).half(),))


def multi_output_heads() -> Case:
    net = Lambda(
        lambda m, x: {"class": F.log_softmax(m.a(F.relu(m.body(x))), -1), "boxes": (m.b(m.body(x)), x.mean(-1))},
        body=nn.Linear(8, 8),
        a=nn.Linear(8, 5),
        b=nn.Linear(8, 4),
    )
    return Case(net, (torch.randn(2, 8),))


def mlp_mixer() -> Case:
    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Sequential(nn.LayerNorm(9), nn.Linear(9, 18), nn.GELU(), nn.Linear(18, 9))
            self.channels = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x):
            x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
            return x + self.channels(x)

    return Case(nn.Sequential(Mixer(), Mixer()), (torch.randn(2, 9, 16),))


CASES = {
    f.__name__: f
    for f in (
        mlp, mlp_dynamic_batch, deep_residual_mlp, batch_norm_mlp, autoencoder, low_rank_adapter, mixture_of_experts,
        factorization_machine, two_tower_recommender, bag_of_words, siamese_distance, normalizations, activations,
        gated_linear_units, bilinear, tied_embeddings, half_precision_mlp, multi_output_heads, mlp_mixer,
    )
}  # fmt: skip
