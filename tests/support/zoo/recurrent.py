"""Recurrent models and scans."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Lambda


def gru() -> Case:
    return Case(nn.GRU(8, 12, batch_first=True), (torch.randn(2, 5, 8),))


def lstm_two_layers() -> Case:
    return Case(nn.LSTM(6, 8, num_layers=2), (torch.randn(4, 2, 6),))


def bidirectional_lstm_tagger() -> Case:
    net = Lambda(lambda m, t: m.head(m.rnn(m.table(t))[0]), table=nn.Embedding(20, 6), rnn=nn.LSTM(6, 5, bidirectional=True), head=nn.Linear(10, 3))
    return Case(net, (torch.randint(0, 20, (4, 1)),))


def vanilla_rnn() -> Case:
    return Case(nn.RNN(5, 7, nonlinearity="relu"), (torch.randn(6, 2, 5),))


def gru_cell_step() -> Case:
    return Case(nn.GRUCell(6, 8), (torch.randn(2, 6), torch.randn(2, 8)))


def lstm_cell_step() -> Case:
    net = Lambda(lambda m, x, h, c: m.cell(x, (h, c)), cell=nn.LSTMCell(6, 8))
    return Case(net, (torch.randn(2, 6), torch.randn(2, 8), torch.randn(2, 8)))


def convolutional_lstm_step() -> Case:
    def forward(m, x, h, c):
        i, f, o, g = m.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    return Case(Lambda(forward, gates=nn.Conv2d(5, 12, 3, padding=1)), (torch.randn(1, 2, 6, 6), torch.randn(1, 3, 6, 6), torch.randn(1, 3, 6, 6)))


def sequence_to_sequence() -> Case:
    def forward(m, source, target):
        memory, state = m.encoder(m.table(source))
        out, _ = m.decoder(m.table(target), state)
        scores = torch.softmax(out @ memory.transpose(1, 2), -1)
        return m.head(torch.cat([out, scores @ memory], -1))

    net = Lambda(
        forward,
        table=nn.Embedding(15, 6),
        encoder=nn.GRU(6, 8, batch_first=True),
        decoder=nn.GRU(6, 8, batch_first=True),
        head=nn.Linear(16, 15),
    )
    return Case(net, (torch.randint(0, 15, (1, 5)), torch.randint(0, 15, (1, 4))))


def mamba_like_scan() -> Case:
    class SelectiveScan(nn.Module):
        """A selective state space layer, its recurrence unrolled over a fixed length."""

        def __init__(self):
            super().__init__()
            self.inner, self.bc, self.dt = nn.Linear(8, 16), nn.Linear(8, 8), nn.Linear(8, 8)
            self.conv = nn.Conv1d(8, 8, 3, padding=2, groups=8)
            self.a, self.out = nn.Parameter(torch.rand(8, 4)), nn.Linear(8, 8)

        def forward(self, x):
            u, gate = self.inner(x).chunk(2, -1)
            u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
            b, c = self.bc(u).chunk(2, -1)
            dt = F.softplus(self.dt(u))
            decay = torch.exp(-dt.unsqueeze(-1) * self.a)
            drive = (dt * u).unsqueeze(-1) * b.unsqueeze(2)
            state, outputs = torch.zeros_like(drive[:, 0]), []
            for t in range(x.shape[1]):
                state = decay[:, t] * state + drive[:, t]
                outputs.append((state * c[:, t].unsqueeze(1)).sum(-1))
            return self.out(torch.stack(outputs, 1) * F.silu(gate))

    return Case(SelectiveScan(), (torch.randn(1, 6, 8),))


def linear_recurrence_cumulative() -> Case:
    net = Lambda(lambda m, x: torch.cumsum(torch.exp(-torch.arange(6.0)).unsqueeze(-1) * m.inner(x), dim=1), inner=nn.Linear(4, 4))
    return Case(net, (torch.randn(2, 6, 4),))


CASES = {
    f.__name__: f
    for f in (
        gru, lstm_two_layers, bidirectional_lstm_tagger, vanilla_rnn, gru_cell_step, lstm_cell_step,
        convolutional_lstm_step, sequence_to_sequence, mamba_like_scan, linear_recurrence_cumulative,
    )
}  # fmt: skip
