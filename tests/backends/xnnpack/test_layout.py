"""Layouts: as few transposes as can be, whole models channels-last, and the same numbers."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.backends.xnnpack.mincut import Network
from support.xnnpack import check, kinds_of, module
from torch import nn


def transposes(model: nn.Module, *inputs: torch.Tensor) -> int:
    check(model, inputs, whole=False)
    return kinds_of(model, inputs)["StaticTranspose"]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, torch.relu(self.b(torch.relu(self.a(x))) + x)[:, 1:]], 1)


X = torch.randn(1, 4, 6, 5)


def test_a_convolutional_model_is_transposed_at_its_borders_only() -> None:
    model = nn.Sequential(Residual(), nn.Conv2d(7, 4, 1), nn.Sigmoid(), nn.MaxPool2d(2), nn.BatchNorm2d(4))
    assert transposes(model, X) == 2


def test_a_channels_last_model_needs_no_transpose() -> None:
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 6, 1), nn.Sigmoid())
    assert transposes(model.to(memory_format=torch.channels_last), X.to(memory_format=torch.channels_last)) == 0


def test_a_classifier_is_transposed_once() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    assert transposes(model, X) == 1


def test_what_permutes_to_channels_last_itself_costs_nothing() -> None:
    convolution, linear = nn.Conv2d(4, 6, 3), nn.Linear(6, 3)
    assert transposes(module(lambda x: linear(convolution(x).permute(0, 2, 3, 1))), X) == 1


def test_one_dimensional_convolutions_stay_channels_last_between() -> None:
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU(), nn.BatchNorm1d(6), nn.Conv1d(6, 6, 3, groups=6), nn.GELU())
    assert transposes(model, torch.randn(1, 4, 12)) == 2


def test_an_image_used_in_both_orders_is_transposed_once() -> None:
    convolution, linear = nn.Conv2d(4, 4, 1), nn.Linear(5, 5)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = linear(x) * 2
        return linear(convolution(y).flatten(1).view(1, 4, 6, 5)) + y

    assert transposes(module(forward), X) == 2


def test_a_model_without_images_has_no_transposes() -> None:
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.LayerNorm(5), nn.Softmax(-1))
    assert transposes(model, X) == 0


def test_channels_of_constants_follow_their_image() -> None:
    bias, row = torch.randn(1, 4, 1, 1), torch.randn(5)
    convolution = nn.Conv2d(4, 4, 1)
    assert transposes(module(lambda x: convolution(convolution(x) * bias + row)), X) == 2


def test_parts_pads_and_joins_know_where_the_channels_are() -> None:
    convolution = nn.Conv2d(4, 4, 3, padding=1)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = convolution(x)
        y = torch.cat([y[:, :, 1:, :4], nn.functional.pad(y[:, :, 2:, 1:4], (1, 0, 0, 1))], 3)
        return convolution(y)

    assert transposes(module(forward), X) == 2


MEMBERS = st.sets(st.integers(0, 6), min_size=2, max_size=4)
NETS = st.lists(st.tuples(MEMBERS, st.integers(1, 9)), min_size=1, max_size=8)


@settings(deadline=None)
@given(NETS)
def test_no_cut_is_cheaper(nets: list[tuple[set[int], int]]) -> None:
    """Vertex 0 is on the source's side, 6 on the sink's; every choice for the others is tried."""
    network = Network()
    for members, cost in nets:
        network.net(set(members), cost)
    network.edge("source", 0, Network.UNLIMITED)
    network.edge(6, "sink", Network.UNLIMITED)

    def price(side: set[int]) -> int:
        return sum(cost for members, cost in nets if 0 < len(members & side) < len(members))

    found = {vertex for vertex in network.source_side("source", "sink") if isinstance(vertex, int)}
    cheapest = min(
        price({0, *extra}) for size in range(6) for extra in itertools.combinations(range(1, 6), size)
    )  # fmt: skip
    assert 0 in found and 6 not in found and price(found) == cheapest
