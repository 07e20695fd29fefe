"""Models with structure beside layers: detection, graphs, points, trees, signal processing, control flow."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .case import Case, Lambda, image


def detection_head_dynamic() -> Case:
    def forward(m, features, anchors):
        raw = m.box(features)
        center = raw[:, :2] * anchors[:, 2:] + anchors[:, :2]
        size = torch.exp(raw[:, 2:].clamp(max=4)) * anchors[:, 2:]
        score, label = torch.softmax(m.kind(features), -1).max(-1)
        return torch.cat([center - size / 2, center + size / 2], -1), score, label

    count = Dim("count", min=1, max=16)
    inputs = (torch.randn(5, 8), torch.rand(5, 4))
    more = ((torch.randn(16, 8), torch.rand(16, 4)), (torch.randn(1, 8), torch.rand(1, 4)))
    return Case(Lambda(forward, box=nn.Linear(8, 4), kind=nn.Linear(8, 3)), inputs, more, (({0: count}, {0: count}),))


def yolo_grid_decode() -> Case:
    def forward(m, x):
        y = m.head(x).view(1, 2, 7, 4, 4).permute(0, 1, 3, 4, 2)
        grid = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="xy"), -1)
        return torch.cat([(torch.sigmoid(y[..., :2]) + grid) / 4, torch.exp(y[..., 2:4]), torch.sigmoid(y[..., 4:])], -1).flatten(1, 3)

    return Case(Lambda(forward, head=nn.Conv2d(3, 14, 1)), (image(size=4),))


def graph_convolution() -> Case:
    net = Lambda(lambda m, x, a: m.b(F.relu(m.a((a / a.sum(-1, keepdim=True)) @ x))), a=nn.Linear(6, 8), b=nn.Linear(8, 3))
    return Case(net, (torch.randn(5, 6), (torch.rand(5, 5) > 0.5).float() + torch.eye(5)))


def graph_attention() -> Case:
    def forward(m, x, adjacency):
        h = m.w(x)
        scores = F.leaky_relu(m.left(h) + m.right(h).T, 0.2).masked_fill(adjacency == 0, float("-inf"))
        return F.elu(torch.softmax(scores, -1) @ h)

    net = Lambda(forward, w=nn.Linear(6, 8), left=nn.Linear(8, 1), right=nn.Linear(8, 1))
    return Case(net, (torch.randn(4, 6), torch.eye(4) + torch.eye(4).roll(1, 0)))


def message_passing_scatter() -> Case:
    def forward(m, x, source, target):
        messages = F.relu(m.message(x[source]))
        total = torch.zeros_like(x).index_add(0, target, messages)
        return m.update(torch.cat([x, total], -1))

    net = Lambda(forward, message=nn.Linear(4, 4), update=nn.Linear(8, 4))
    return Case(net, (torch.randn(5, 4), torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 4])))


def point_net() -> Case:
    net = Lambda(lambda m, p: m.head(m.point(p).amax(1)), point=nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16)), head=nn.Linear(16, 4))
    return Case(net, (torch.randn(2, 20, 3),))


def spatial_transformer() -> Case:
    def forward(m, x):
        theta = m.localise(x.flatten(1)).view(-1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)

    return Case(Lambda(forward, localise=nn.Linear(64, 6)), (torch.randn(1, 1, 8, 8),))


def mel_spectrogram() -> Case:
    class Mel(nn.Module):
        def __init__(self):
            super().__init__()
            n = torch.arange(16.0)
            angle = 2 * torch.pi * torch.outer(n, torch.arange(9.0)) / 16
            self.register_buffer("real", angle.cos())
            self.register_buffer("imaginary", angle.sin())
            self.register_buffer("bank", torch.rand(9, 5))

        def forward(self, wave):
            frames = wave.unfold(-1, 16, 8) * torch.hann_window(16)
            power = (frames @ self.real).pow(2) + (frames @ self.imaginary).pow(2)
            return torch.log(power @ self.bank + 1e-6)

    return Case(Mel(), (torch.randn(1, 64),))


def soft_decision_tree() -> Case:
    def forward(m, x):
        p = torch.sigmoid(m.split(x))
        left, right = torch.stack([p[:, 1], 1 - p[:, 1]], -1), torch.stack([p[:, 2], 1 - p[:, 2]], -1)
        leaves = torch.cat([p[:, :1] * left, (1 - p[:, :1]) * right], -1)
        return leaves @ m.leaf.weight

    return Case(Lambda(forward, split=nn.Linear(4, 3), leaf=nn.Linear(2, 4)), (torch.randn(3, 4),))


def kalman_step() -> Case:
    def forward(m, state, covariance, seen):
        step = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
        state, covariance = state @ step.T, step @ covariance @ step.T + 0.1 * torch.eye(2)
        gain = covariance[:, :1] / (covariance[:1, :1] + 0.5)
        return state + (seen - state[:, :1]) * gain.T, covariance - gain @ covariance[:1]

    return Case(Lambda(forward), (torch.randn(1, 2), torch.eye(2), torch.randn(1, 1)))


def conditional_branch() -> Case:
    def forward(m, x):
        return torch.cond(x.sum() > 0, lambda y: m.warm(y), lambda y: m.cold(y) - 1, (x,))

    return Case(Lambda(forward, warm=nn.Linear(4, 4), cold=nn.Linear(4, 4)), (torch.ones(2, 4),), ((-torch.ones(2, 4),), (torch.ones(2, 4),)))


def moving_average_state() -> Case:
    class MovingAverage(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.full((4,), 2.0))

        def forward(self, x):
            self.mean.mul_(0.9).add_(x, alpha=0.1)
            return x - self.mean

    return Case(MovingAverage(), (torch.randn(4),), ((torch.randn(4),), (torch.randn(4),)), stateful=True)


def sliding_window_buffer() -> Case:
    class Window(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.arange(6.0))
            self.head = nn.Linear(6, 2)

        def forward(self, x):
            self.window.copy_(torch.cat([self.window[1:], x]))
            return self.head(self.window)

    return Case(Window(), (torch.tensor([7.0]),), ((torch.tensor([8.0]),),), stateful=True)


def beam_search_step() -> Case:
    def forward(m, logits, scores):
        total = scores.unsqueeze(-1) + F.log_softmax(logits, -1)
        best, index = torch.topk(total.flatten(), 3)
        return best, torch.div(index, logits.shape[-1], rounding_mode="floor"), index % logits.shape[-1]

    return Case(Lambda(forward), (torch.randn(3, 7), torch.randn(3)))


CASES = {
    f.__name__: f
    for f in (
        detection_head_dynamic, yolo_grid_decode, graph_convolution, graph_attention, message_passing_scatter, point_net,
        spatial_transformer, mel_spectrogram, soft_decision_tree, kalman_step, conditional_branch, moving_average_state,
        sliding_window_buffer, beam_search_step,
    )
}  # fmt: skip
