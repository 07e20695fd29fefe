"""The models that the benchmarks lower: sizes at which the cost of lowering is felt."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


def transformer(layers: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """An encoder of width 256, 4 heads, feed-forward 1024, over 64 tokens."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    net = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    for parameter in net.parameters():  # clones start out equal, and equal constants are stored once
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return net, (torch.randn(1, 64, 256),)


def cnn16() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sixteen 3×3 convolutions with batch norm and ReLU, 32 channels, 32×32 pixels."""
    layers: list[nn.Module] = []
    for index in range(16):
        layers += [nn.Conv2d(3 if index == 0 else 32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(*layers), (torch.randn(1, 3, 32, 32),)


def linears() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Twelve linear layers of width 2048: 201 MB of weights."""
    return nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(12)]), (torch.randn(1, 2048),)


class _Inverted(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        mid = cin * 6
        self.body = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout),
        )  # fmt: skip
        self.skip = stride == 1 and cin == cout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Inverted residuals as in MobileNet v2, at 96×96 pixels."""
    blocks = [_Inverted(*shape) for shape in ((16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))]
    stem = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()]
    head = [nn.Conv2d(64, 256, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)]
    return nn.Sequential(*stem, *blocks, *head), (torch.randn(1, 3, 96, 96),)


class _Residual(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int):
        super().__init__()
        self.a, self.na = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.b, self.nb = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if cin == cout else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.skip(x))


def resnet() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Eight residual blocks as in ResNet-18, at 64×64 pixels."""
    shapes = ((32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))
    stem = [nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)]
    return nn.Sequential(*stem, *[_Residual(*s) for s in shapes], *head), (torch.randn(1, 3, 64, 64),)


class _DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, length: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("keys", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, length, width // heads))

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, _, w = x.shape
        q, k, v = (y.view(b, 1, self.heads, w // self.heads).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        scores = (q @ self.keys.transpose(-1, -2)) * (w // self.heads) ** -0.5 + mask
        x = x + self.out((torch.softmax(scores, -1) @ self.values).transpose(1, 2).reshape(b, 1, w))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class _Decoder(nn.Module):
    def __init__(self, layers: int = 6, width: int = 256, length: int = 128):
        super().__init__()
        self.table = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(_DecoderLayer(width, 4, length) for _ in range(layers))
        self.head = nn.Linear(width, 1000)
        self.register_buffer("places", torch.arange(length), persistent=False)

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        mask = (self.places > position).float() * -1e9
        x = self.table(token)
        for layer in self.layers:
            x = layer(x, position, mask)
        return self.head(x)


def decoder_step() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """One step of a six-layer decoder with a key-value cache of 128 places in buffers."""
    return _Decoder(), (torch.tensor([[7]]), torch.tensor([3]))


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "transformer6": lambda: transformer(6),
    "transformer12": lambda: transformer(12),
    "transformer24": lambda: transformer(24),
    "transformer48": lambda: transformer(48),
    "cnn16": cnn16,
    "linears12": linears,
    "mobilenet": mobilenet,
    "resnet": resnet,
    "decoder_step": decoder_step,
}


def make(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model `name` in eval mode with seeded weights, and its inputs."""
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    return module.eval(), inputs
