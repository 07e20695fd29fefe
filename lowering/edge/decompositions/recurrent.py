"""Recurrent layers, unrolled over a length that is known at build time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .register import decomposes

aten = torch.ops.aten


@decomposes(aten.lstm.input)
def lstm(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Layers of one or two directions; projections (a third state weight) are left to PyTorch."""
    if (dropout and train) or hx[0].shape[-1] != hx[1].shape[-1]:
        return NotImplemented
    output, (h, c) = _layers(input, hx, params, has_biases, num_layers, bidirectional, batch_first, _lstm_cell)
    return output, h, c


def _layers(
    input: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
    cell: Callable[..., tuple[Any, ...]],
) -> tuple[Any, list[Any]]:
    """Run `cell` over time in each layer and direction; the output and the final states."""
    steps = aten.transpose.int(input, 0, 1) if batch_first else input
    directions = 2 if bidirectional else 1
    per_direction = 4 if has_biases else 2
    final: list[list[Any]] = [[] for _ in states]
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * per_direction : (index + 1) * per_direction]
            initial = [aten.select.int(state, 0, index) for state in states]
            output, last = _direction(steps, initial, weights, direction == 1, cell)
            outputs.append(output)
            for states_of_kind, state in zip(final, last):
                states_of_kind.append(state)
        steps = aten.cat.default(outputs, -1)
    output = aten.transpose.int(steps, 0, 1) if batch_first else steps
    return output, [aten.stack.default(states_of_kind) for states_of_kind in final]


def _direction(
    steps: Any, state: list[Any], weights: Sequence[Any], backward: bool, cell: Callable[..., tuple[Any, ...]]
) -> tuple[Any, list[Any]]:
    w_input, w_hidden, b_input, b_hidden = (*weights, None, None)[:4]
    # One product for the inputs of all steps; only the states' products are sequential.
    inputs = aten.unbind.int(aten.linear.default(steps, w_input, b_input))
    outputs = []
    for gates in reversed(inputs) if backward else inputs:
        state = list(cell(gates, state, w_hidden, b_hidden))
        outputs.append(state[0])
    return aten.stack.default(outputs[::-1] if backward else outputs), state


def _lstm_cell(gates: Any, state: list[Any], w_hidden: Any, b_hidden: Any) -> tuple[Any, Any]:
    hidden, cell = state
    gates = aten.add.Tensor(gates, aten.linear.default(hidden, w_hidden, b_hidden))
    i, f, g, o = aten.split.Tensor(gates, cell.shape[-1], -1)
    kept = aten.mul.Tensor(aten.sigmoid.default(f), cell)
    cell = aten.add.Tensor(kept, aten.mul.Tensor(aten.sigmoid.default(i), aten.tanh.default(g)))
    return aten.mul.Tensor(aten.sigmoid.default(o), aten.tanh.default(cell)), cell
