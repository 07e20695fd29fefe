"""A partition as XNNPACK sees it: values, and nodes that compute values from values.

Sizes are those of PyTorch (NCHW) until layout.py decides which values are channels-last in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Union

import torch

from .schema import DataType

Size = Union[int, torch.SymInt]


class Unsupported(Exception):
    """Why XNNPACK does not take a node, as a sentence without its end; `node` is set where one is at hand."""

    node: torch.fx.Node | None = None


@dataclass(frozen=True)
class Quantization:
    """What the integers of a value stand for.

    `scale` and `zero_point` are of the whole tensor; `scales` gives a tensor of one scale per
    channel along `channel_dim`, or, with `group_size`, of [channels, groups]. Without all of these
    scale and zero point are chosen at run time, one each for the last `row_dims` dimensions.
    """

    scale: float | None = None
    zero_point: int = 0
    scales: Callable[[], torch.Tensor] | None = None
    channel_dim: int = 0
    group_size: int | None = None
    row_dims: int = 1

    @property
    def is_dynamic(self) -> bool:
        return self.scale is None and self.scales is None


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph: an input, a constant whose data `constant` gives when asked, or a node's output.

    `integers` are the constant that this one was dequantized from.
    """

    sizes: tuple[Size, ...]
    dtype: DataType = DataType.FLOAT32
    constant: Callable[[], torch.Tensor] | None = None
    quantization: Quantization | None = None
    integers: Value | None = None

    @property
    def rank(self) -> int:
        return len(self.sizes)


class Layout(Enum):
    """What a node asks of the memory layout of its activations of three and more dimensions."""

    DEFAULT = "all in the default order"
    CHANNELS_LAST = "the first operand and the results channels-last"
    SAME = "any, if it is the same for all"
    PERMUTE = "any, even one for the operand and another for the result"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `operands` may hold None, for an absent bias.

    `attributes` fill the slots of the payload that are no operands (schema.py). `low` and `high`
    bound the results.
    """

    kind: str
    operands: tuple[Value | None, ...]
    results: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout = Layout.DEFAULT
    low: float = -math.inf
    high: float = math.inf
    debug_handle: int = 0

    @property
    def result(self) -> Value:
        return self.results[0]

    def with_operands(self, operands: Iterable[Value | None]) -> Node:
        return replace(self, operands=tuple(operands))


@dataclass(frozen=True)
class Graph:
    """A partition: inputs, nodes in order, outputs.

    `inputs` are by position among the call's arguments: None for numbers, and for what is not used.
    The flags say which inputs and outputs are channels-last where they are.
    """

    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    input_channels_last: tuple[bool, ...] = ()
    output_channels_last: tuple[bool, ...] = ()

    def producers(self) -> dict[Value, Node]:
        """The node that makes each value that a node makes."""
        return {result: node for node in self.nodes for result in node.results}

    def use_counts(self) -> dict[Value, int]:
        """How often each value is read, by nodes and as an output."""
        counts: dict[Value, int] = {}
        for value in (*(v for node in self.nodes for v in node.operands), *self.outputs):
            if value is not None:
                counts[value] = counts.get(value, 0) + 1
        return counts


def is_static(sizes: Iterable[Size]) -> bool:
    """Whether all sizes are known at build time."""
    return all(isinstance(size, int) for size in sizes)


def same_sizes(left: Iterable[Size], right: Iterable[Size]) -> bool:
    """Whether sizes are equal, as numbers or as expressions, without a guard."""
    return expressions(left) == expressions(right)


def expressions(sizes: Iterable[Size]) -> tuple[Any, ...]:
    """Sizes as values that compare without a guard."""
    return tuple(size if isinstance(size, int) else size.node.expr for size in sizes)
