"""Generative models: autoencoders, flows, diffusion steps, vocoders."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Lambda


def variational_decoder() -> Case:
    net = nn.Sequential(nn.Linear(4, 8 * 4), nn.ReLU(), nn.Unflatten(1, (8, 2, 2)), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.ReLU(),
                        nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid())  # fmt: skip
    return Case(net, (torch.randn(2, 4),))


def gan_generator() -> Case:
    net = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())
    return Case(net, (torch.randn(1, 6, 1, 1),))


def gan_discriminator() -> Case:
    net = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
                        nn.Flatten(), nn.Linear(128, 1))  # fmt: skip
    return Case(net, (torch.randn(1, 3, 16, 16),))


def diffusion_denoiser() -> Case:
    def forward(m, x, t):
        frequency = torch.exp(-math.log(10000) * torch.arange(4) / 4)
        angle = t[:, None] * frequency
        step = m.time(torch.cat([angle.sin(), angle.cos()], -1))[:, :, None, None]
        return m.out(F.silu(m.norm(m.inner(x) + step)))

    net = Lambda(forward, inner=nn.Conv2d(3, 8, 3, padding=1), time=nn.Linear(8, 8), norm=nn.GroupNorm(2, 8), out=nn.Conv2d(8, 3, 3, padding=1))
    return Case(net, (torch.randn(2, 3, 8, 8), torch.tensor([3.0, 9.0])))


def affine_coupling_flow() -> Case:
    def forward(m, x):
        a, b = x.chunk(2, -1)
        scale, shift = m.net(a).chunk(2, -1)
        return torch.cat([a, b * torch.exp(torch.tanh(scale)) + shift], -1), torch.tanh(scale).sum(-1)

    return Case(Lambda(forward, net=nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))), (torch.randn(3, 8),))


def vector_quantizer() -> Case:
    def forward(m, x):
        distance = (x.unsqueeze(1) - m.codes.weight.unsqueeze(0)).pow(2).sum(-1)
        return m.codes(distance.argmin(-1)), distance.amin(-1)

    return Case(Lambda(forward, codes=nn.Embedding(12, 4)), (torch.randn(5, 4),))


def nerf_positional_encoding() -> Case:
    def forward(m, x):
        waves = [f(x * 2.0**i) for i in range(4) for f in (torch.sin, torch.cos)]
        return torch.sigmoid(m.net(torch.cat([x, *waves], -1)))

    return Case(Lambda(forward, net=nn.Sequential(nn.Linear(27, 16), nn.ReLU(), nn.Linear(16, 4))), (torch.rand(6, 3),))


def siren() -> Case:
    return Case(Lambda(lambda m, x: m.b(torch.sin(30 * m.a(x))), a=nn.Linear(2, 16), b=nn.Linear(16, 3)), (torch.rand(5, 2),))


def vocoder_upsampler() -> Case:
    net = nn.Sequential(nn.ConvTranspose1d(8, 6, 4, 2, 1), nn.LeakyReLU(0.1), nn.Conv1d(6, 6, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv1d(6, 1, 7, padding=3), nn.Tanh())
    return Case(net, (torch.randn(1, 8, 6),))


CASES = {
    f.__name__: f
    for f in (
        variational_decoder, gan_generator, gan_discriminator, diffusion_denoiser, affine_coupling_flow, vector_quantizer,
        nerf_positional_encoding, siren, vocoder_upsampler,
    )
}  # fmt: skip
