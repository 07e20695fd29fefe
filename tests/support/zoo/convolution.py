"""Convolutional models: plain, residual, depthwise, dense, dilated, transposed, 1-D and 3-D."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .case import Case, Lambda, image


def lively(module: nn.Module) -> nn.Module:
    """Give batch norms statistics that are not the identity, as training would."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_(std=0.2)
            m.running_var.uniform_(0.5, 1.5)
    return module


def conv_bn_relu(cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), nn.ReLU())


def lenet() -> Case:
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip
    return Case(net, (image(1, 16),))


def vgg_like() -> Case:
    net = nn.Sequential(
        conv_bn_relu(3, 8), conv_bn_relu(8, 8), nn.MaxPool2d(2), conv_bn_relu(8, 16), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(64, 5),
    )  # fmt: skip
    return Case(lively(net), (image(),))


class ResidualBlock(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int = 1):
        super().__init__()
        self.first = conv_bn_relu(cin, cout, stride=stride)
        self.second = nn.Sequential(nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride)

    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.skip(x))


def resnet_like() -> Case:
    net = nn.Sequential(
        conv_bn_relu(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), ResidualBlock(8, 8), ResidualBlock(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return Case(lively(net), (image(size=32),))


def resnet_channels_last() -> Case:
    case = resnet_like()
    return Case(case.module.to(memory_format=torch.channels_last), (case.inputs[0].to(memory_format=torch.channels_last),))


class InvertedResidual(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, expand: int):
        super().__init__()
        mid = cin * expand
        self.body = nn.Sequential(
            nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False), nn.BatchNorm2d(mid), nn.ReLU6(),
            nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout),
        )  # fmt: skip
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2_like() -> Case:
    net = nn.Sequential(
        conv_bn_relu(3, 8, stride=2), InvertedResidual(8, 8, 1, 2), InvertedResidual(8, 12, 2, 3),
        InvertedResidual(12, 12, 1, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10),
    )  # fmt: skip
    return Case(lively(net), (image(size=32),))


def mobilenet_v3_like() -> Case:
    class SqueezeExcite(nn.Module):
        def __init__(self, channels: int):
            super().__init__()
            self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

        def forward(self, x):
            scale = F.adaptive_avg_pool2d(x, 1)
            return x * F.hardsigmoid(self.up(F.relu(self.down(scale))))

    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(), SqueezeExcite(8), nn.Conv2d(8, 12, 1), nn.Hardswish(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 5))  # fmt: skip
    return Case(net, (image(),))


def efficientnet_like() -> Case:
    net = Lambda(
        lambda m, x: m.head((lambda y: y * torch.sigmoid(m.se(y.mean((2, 3), keepdim=True))))(F.silu(m.stem(x))).mean((2, 3))),
        stem=nn.Conv2d(3, 8, 3, 2, 1),
        se=nn.Conv2d(8, 8, 1),
        head=nn.Linear(8, 4),
    )
    return Case(net, (image(),))


def densenet_like() -> Case:
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(4 + 4 * i, 4, 3, padding=1) for i in range(4))

        def forward(self, x):
            features = [x]
            for layer in self.layers:
                features.append(F.relu(layer(torch.cat(features, 1))))
            return torch.cat(features, 1)

    return Case(nn.Sequential(nn.Conv2d(3, 4, 1), Dense()), (image(size=8),))


def inception_like() -> Case:
    net = Lambda(
        lambda m, x: torch.cat([m.one(x), m.three(x), m.five(x), m.pool(F.max_pool2d(x, 3, 1, 1))], 1),
        one=nn.Conv2d(3, 4, 1),
        three=nn.Conv2d(3, 4, 3, padding=1),
        five=nn.Conv2d(3, 4, 5, padding=2),
        pool=nn.Conv2d(3, 4, 1),
    )
    return Case(net, (image(),))


def squeezenet_fire() -> Case:
    net = Lambda(
        lambda m, x: (lambda s: torch.cat([F.relu(m.e1(s)), F.relu(m.e3(s))], 1))(F.relu(m.squeeze(x))),
        squeeze=nn.Conv2d(3, 4, 1),
        e1=nn.Conv2d(4, 8, 1),
        e3=nn.Conv2d(4, 8, 3, padding=1),
    )
    return Case(net, (image(),))


def shufflenet_unit() -> Case:
    def forward(m, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([a, m.branch(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    branch = nn.Sequential(conv_bn_relu(4, 4, 1), nn.Conv2d(4, 4, 3, 1, 1, groups=4), conv_bn_relu(4, 4, 1))
    return Case(lively(Lambda(forward, branch=branch)), (image(8),))


def resnext_grouped() -> Case:
    net = nn.Sequential(nn.Conv2d(8, 16, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.ReLU(), nn.Conv2d(16, 8, 1))
    return Case(net, (image(8),))


def convnext_block() -> Case:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.depthwise = nn.Conv2d(8, 8, 7, padding=3, groups=8)
            self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x):
            y = self.depthwise(x).permute(0, 2, 3, 1)
            return x + self.down(F.gelu(self.up(self.norm(y)))).permute(0, 3, 1, 2)

    return Case(nn.Sequential(Block(), Block()), (image(8),))


def unet() -> Case:
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.mid = conv_bn_relu(3, 8), conv_bn_relu(8, 16), conv_bn_relu(16, 16)
            self.up1, self.up2 = nn.ConvTranspose2d(16, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
            self.u1, self.u2, self.out = conv_bn_relu(32, 16), conv_bn_relu(16, 8), nn.Conv2d(8, 2, 1)

        def forward(self, x):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            y = self.u1(torch.cat([self.up1(self.mid(F.max_pool2d(b, 2))), b], 1))
            return self.out(self.u2(torch.cat([self.up2(y), a], 1)))

    return Case(lively(UNet()), (image(),))


def fpn() -> Case:
    def forward(m, x):
        a = F.relu(m.a(x))
        b = F.relu(m.b(a))
        top = m.lb(b)
        return m.la(a) + F.interpolate(top, scale_factor=2.0, mode="nearest"), top

    net = Lambda(forward, a=nn.Conv2d(3, 8, 3, 2, 1), b=nn.Conv2d(8, 16, 3, 2, 1), la=nn.Conv2d(8, 8, 1), lb=nn.Conv2d(16, 8, 1))
    return Case(net, (image(),))


def segmentation_bilinear() -> Case:
    net = Lambda(
        lambda m, x: F.interpolate(m.head(F.relu(m.stem(x))), size=(16, 16), mode="bilinear", align_corners=False),
        stem=nn.Conv2d(3, 8, 3, 2, 1),
        head=nn.Conv2d(8, 4, 1),
    )
    return Case(net, (image(),))


def deeplab_atrous() -> Case:
    net = Lambda(
        lambda m, x: torch.cat([m.r1(x), m.r2(x), m.r4(x), m.g(F.adaptive_avg_pool2d(x, 1)).expand(-1, -1, 16, 16)], 1),
        r1=nn.Conv2d(3, 4, 3, padding=1),
        r2=nn.Conv2d(3, 4, 3, padding=2, dilation=2),
        r4=nn.Conv2d(3, 4, 3, padding=4, dilation=4),
        g=nn.Conv2d(3, 4, 1),
    )
    return Case(net, (image(),))


def super_resolution() -> Case:
    return Case(nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.PReLU(8), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)), (image(1, 8),))


def conv1d_text() -> Case:
    net = Lambda(
        lambda m, t: m.head(torch.cat([F.relu(c(m.table(t).transpose(1, 2))).amax(-1) for c in (m.c2, m.c3)], -1)),
        table=nn.Embedding(30, 8),
        c2=nn.Conv1d(8, 6, 2),
        c3=nn.Conv1d(8, 6, 3),
        head=nn.Linear(12, 2),
    )
    return Case(net, (torch.randint(0, 30, (2, 9)),))


def temporal_convolution() -> Case:
    layers = [m for d in (1, 2, 4) for m in (nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(6, 6, 3, dilation=d), nn.ReLU())]
    return Case(nn.Sequential(*layers), (torch.randn(1, 6, 20),))


def wavenet_like() -> Case:
    def forward(m, x):
        return x + m.out(torch.tanh(m.f(F.pad(x, (2, 0)))) * torch.sigmoid(m.g(F.pad(x, (2, 0)))))

    return Case(Lambda(forward, f=nn.Conv1d(6, 6, 3), g=nn.Conv1d(6, 6, 3), out=nn.Conv1d(6, 6, 1)), (torch.randn(1, 6, 12),))


def keyword_spotting() -> Case:
    net = nn.Sequential(nn.Conv2d(1, 8, (5, 3), (2, 1)), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 12, 1), nn.ReLU(),
                        nn.AvgPool2d((4, 6)), nn.Flatten(), nn.Linear(12, 6))  # fmt: skip
    return Case(net, (torch.randn(1, 1, 16, 10),))


def conv3d_video() -> Case:
    net = nn.Sequential(nn.Conv3d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 6, (1, 3, 3)), nn.AdaptiveAvgPool3d(1), nn.Flatten())
    return Case(net, (torch.randn(1, 3, 4, 8, 8),))


def style_transfer() -> Case:
    net = nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
                        nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())  # fmt: skip
    return Case(net, (image(size=8),))


def fully_convolutional_dynamic() -> Case:
    batch = Dim("batch", min=1, max=4)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 1))
    return Case(net, (image(batch=2),), ((image(batch=1),), (image(batch=4),)), ({0: batch},))


CASES = {
    f.__name__: f
    for f in (
        lenet, vgg_like, resnet_like, resnet_channels_last, mobilenet_v2_like, mobilenet_v3_like, efficientnet_like,
        densenet_like, inception_like, squeezenet_fire, shufflenet_unit, resnext_grouped, convnext_block, unet, fpn,
        segmentation_bilinear, deeplab_atrous, super_resolution, conv1d_text, temporal_convolution, wavenet_like,
        keyword_spotting, conv3d_video, style_transfer, fully_convolutional_dynamic,
    )
}  # fmt: skip
