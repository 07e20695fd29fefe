"""Transformers: encoders, decoders with caches, vision and audio variants, rotary and linear attention."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .case import Case, Lambda, image


def transformer_encoder(layers: int = 2, width: int = 16, heads: int = 2, length: int = 6) -> Case:
    layer = nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True)
    return Case(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), (torch.randn(1, length, width),))


def transformer_decoder() -> Case:
    net = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True), 2)
    return Case(net, (torch.randn(1, 4, 16), torch.randn(1, 6, 16)))


def full_transformer() -> Case:
    return Case(nn.Transformer(16, 2, 1, 1, 32, batch_first=True), (torch.randn(1, 5, 16), torch.randn(1, 3, 16)))


class Attention(nn.Module):
    """Multi-head self-attention through scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int, causal: bool = False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


def self_attention_dynamic_length() -> Case:
    length = Dim("length", min=2, max=12)
    return Case(Attention(16, 4), (torch.randn(1, 5, 16),), ((torch.randn(1, 2, 16),), (torch.randn(1, 12, 16),)), ({1: length},))


def gpt_like() -> Case:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2, self.attend = nn.LayerNorm(16), nn.LayerNorm(16), Attention(16, 2, causal=True)
            self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 16))

        def forward(self, x):
            x = x + self.attend(self.n1(x))
            return x + self.mlp(self.n2(x))

    def forward(m, tokens):
        x = m.table(tokens) + m.position(torch.arange(tokens.shape[1]))
        return F.linear(m.norm(m.blocks(x)), m.table.weight)

    net = Lambda(forward, table=nn.Embedding(30, 16), position=nn.Embedding(8, 16), blocks=nn.Sequential(Block(), Block()), norm=nn.LayerNorm(16))
    return Case(net, (torch.randint(0, 30, (1, 8)),))


class CachedDecoder(nn.Module):
    """One decoder step with a key-value cache that lives in buffers."""

    def __init__(self, width: int = 16, heads: int = 2, length: int = 8):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, length, width // heads))

    def forward(self, x, position):
        b, _, w = x.shape
        q, k, v = (y.view(b, 1, self.heads, w // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        mask = torch.arange(self.keys.shape[2]) <= position
        scores = (q @ self.keys.transpose(-1, -2)) / math.sqrt(w // self.heads)
        scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((torch.softmax(scores, -1) @ self.values).transpose(1, 2).reshape(b, 1, w))


def decoder_with_kv_cache() -> Case:
    steps = tuple((torch.randn(1, 1, 16), torch.tensor([i])) for i in range(1, 4))
    return Case(CachedDecoder(), (torch.randn(1, 1, 16), torch.tensor([0])), steps, stateful=True)


def llama_like_block() -> Case:
    class Block(nn.Module):
        def __init__(self, width=16, heads=4, groups=2, length=6):
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, width // heads
            self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, groups * self.size, bias=False)
            self.v, self.o = nn.Linear(width, groups * self.size, bias=False), nn.Linear(width, width, bias=False)
            self.w1, self.w2, self.w3 = (nn.Linear(a, b, bias=False) for a, b in ((width, 32), (32, width), (width, 32)))
            self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
            angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def rotate(self, x):
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)

        def forward(self, x):
            b, t, w = x.shape
            y = self.n1(x)
            q = self.rotate(self.q(y).view(b, t, self.heads, -1).transpose(1, 2))
            k = self.rotate(self.k(y).view(b, t, self.groups, -1).transpose(1, 2))
            v = self.v(y).view(b, t, self.groups, -1).transpose(1, 2)
            k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(b, t, w))
            y = self.n2(x)
            return x + self.w2(F.silu(self.w1(y)) * self.w3(y))

    return Case(Block(), (torch.randn(1, 6, 16),))


def t5_relative_bias() -> Case:
    def forward(m, x):
        place = torch.arange(x.shape[1])
        bias = m.bias((place[None] - place[:, None]).clamp(-3, 3) + 3).permute(2, 0, 1)
        q, k, v = (f(x).view(1, -1, 2, 8).transpose(1, 2) for f in (m.q, m.k, m.v))
        return (torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v).transpose(1, 2).flatten(2)

    return Case(Lambda(forward, bias=nn.Embedding(7, 2), q=nn.Linear(16, 16), k=nn.Linear(16, 16), v=nn.Linear(16, 16)), (torch.randn(1, 5, 16),))


def alibi_attention() -> Case:
    def forward(m, x):
        place = torch.arange(x.shape[1])
        slope = torch.tensor([0.5, 0.25]).view(2, 1, 1)
        q, k, v = (y.view(1, -1, 2, 8).transpose(1, 2) for y in m.qkv(x).chunk(3, -1))
        scores = q @ k.mT / 8**0.5 - slope * (place[:, None] - place[None]).abs()
        return (scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9).softmax(-1) @ v).transpose(1, 2).flatten(2)

    return Case(Lambda(forward, qkv=nn.Linear(16, 48)), (torch.randn(1, 5, 16),))


def linear_attention() -> Case:
    def forward(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        context = torch.einsum("btd,bte->bde", k, v)
        return torch.einsum("btd,bde->bte", q, context) / (q @ k.sum(1).unsqueeze(-1))

    return Case(Lambda(forward, qkv=nn.Linear(8, 24)), (torch.randn(2, 6, 8),))


def vision_transformer() -> Case:
    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 16, 4, 4)
            self.token, self.position = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
            self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True), 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 5)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            return self.head(self.body(x)[:, 0])

    return Case(Vit(), (image(),))


def swin_window_attention() -> Case:
    def forward(m, x):
        x = torch.roll(x, (-2, -2), (1, 2)).view(1, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 8)
        x = m.attend(x).view(1, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 8)
        return torch.roll(x, (2, 2), (1, 2))

    return Case(Lambda(forward, attend=Attention(8, 2)), (torch.randn(1, 8, 8, 8),))


def perceiver_cross_attention() -> Case:
    class Perceiver(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(1, 4, 16))
            self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            return self.attend(self.latents.expand(x.shape[0], -1, -1), x, x)[0]

    return Case(Perceiver(), (torch.randn(2, 9, 16),))


def bert_like_classifier() -> Case:
    def forward(m, tokens, mask):
        x = m.norm(m.table(tokens) + m.position(torch.arange(6)))
        return torch.tanh(m.pool(m.body(x, src_key_padding_mask=mask)[:, 0]))

    net = Lambda(
        forward,
        table=nn.Embedding(30, 16, padding_idx=0),
        position=nn.Embedding(6, 16),
        norm=nn.LayerNorm(16),
        body=nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False),
        pool=nn.Linear(16, 16),
    )
    mask = torch.tensor([[False, False, False, False, True, True]])
    return Case(net, (torch.randint(1, 30, (1, 6)), mask))


def conformer_block() -> Case:
    def forward(m, x):
        x = x + 0.5 * m.ff(x)
        x = x + m.attend(x)
        y = m.depthwise(F.glu(m.point(x.transpose(1, 2)), 1))
        return m.norm(x + F.silu(m.bn(y)).transpose(1, 2))

    net = Lambda(
        forward,
        ff=nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)),
        attend=Attention(16, 2),
        point=nn.Conv1d(16, 32, 1),
        depthwise=nn.Conv1d(16, 16, 3, padding=1, groups=16),
        bn=nn.BatchNorm1d(16),
        norm=nn.LayerNorm(16),
    )
    return Case(net, (torch.randn(1, 6, 16),))


def retention_chunk() -> Case:
    def forward(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        place = torch.arange(5.0)
        decay = torch.tril(0.9 ** (place[:, None] - place[None]).clamp(min=0))
        return m.norm(((q @ k.mT) * decay) @ v)

    return Case(Lambda(forward, qkv=nn.Linear(8, 24), norm=nn.LayerNorm(8)), (torch.randn(1, 5, 8),))


CASES = {
    f.__name__: f
    for f in (
        transformer_encoder, transformer_decoder, full_transformer, self_attention_dynamic_length, gpt_like,
        decoder_with_kv_cache, llama_like_block, t5_relative_bias, alibi_attention, linear_attention,
        vision_transformer, swin_window_attention, perceiver_cross_attention, bert_like_classifier, conformer_block,
        retention_chunk,
    )
}  # fmt: skip
