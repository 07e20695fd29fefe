"""What the file says of a tensor's shape: upper bounds of its sizes, and the order of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from ..edge.layout import dense_strides
from ..errors import LoweringError

aten = torch.ops.aten

_INT32_MAX = 2**31 - 1

# Operators whose result has its operand's elements, in the same order.
RESHAPES = (
    aten.view_copy.default,
    aten.view.default,
    aten._unsafe_view.default,
    aten.squeeze_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.unsqueeze_copy.default,
    aten.alias_copy.default,
    aten.detach_copy.default,
    aten.lift_fresh_copy.default,
)


class Bounds:
    """The ranges of a method's symbolic sizes, and what follows from them.

    A class because data-dependent operators (nonzero) add what they know while the graph is walked.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._ranges: dict[Any, ValueRanges[Any]] = dict(program.range_constraints)
        self._uppers: dict[Any, int | None] = {}

    def upper(self, size: int | torch.SymInt) -> int | None:
        """The most that `size` can be; None where nothing bounds it."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression not in self._uppers:
            self._uppers[expression] = self._compute(expression, size.node.shape_env)
        return self._uppers[expression]

    def _compute(self, expression: Any, shape_env: Any) -> int | None:
        known = {
            symbol: self._ranges.get(symbol) or shape_env.var_to_range.get(symbol) or ValueRanges.unknown_int()
            for symbol in expression.free_symbols
        }
        upper = bound_sympy(expression, known).upper
        # torch's stand-ins for "no bound": infinity, and the largest 64-bit integers.
        return None if upper.is_infinite or upper > 2**62 else int(upper)

    def sizes(self, shape: Sequence[int | torch.SymInt], node: torch.fx.Node) -> tuple[int, ...]:
        """The upper bounds of all of a tensor's sizes.

        Raises:
            LoweringError: a size has no bound, or is beyond what the format can say.
        """
        sizes = []
        for dim, size in enumerate(shape):
            upper = self.upper(size)
            if upper is None:
                raise _unbounded(node, dim, size)
            sizes.append(upper)
        if any(size > _INT32_MAX for size in sizes):
            raise LoweringError(
                f"a tensor of shape {tuple(sizes)} has a size beyond {_INT32_MAX}, the largest that a .pte can hold",
                node=node,
                remedies=["give its dynamic dimensions smaller bounds (torch.export.Dim's max)"],
            )
        return tuple(sizes)

    def bound(self, size: int | torch.SymInt, upper: int) -> None:
        """Learn that `size`, one unknown symbol, is at most `upper`; a known bound that is smaller stays."""
        if isinstance(size, int) or not size.node.expr.is_symbol:
            return
        known = self.upper(size)
        if known is None or known > upper:
            self._ranges[size.node.expr] = ValueRanges(0, upper)
            self._uppers.clear()


def _unbounded(node: torch.fx.Node, dim: int, size: torch.SymInt) -> LoweringError:
    remedies = (
        ["give the dimension a bound where the model is exported: torch.export.Dim(name, max=...)"]
        if node.op == "placeholder"
        else ["bound the value in the model: torch._check(value <= limit)", "use an operator with a fixed output shape"]
    )
    return LoweringError(
        f"dimension {dim} of {node.name!r} ({size}) has no upper bound, so no memory can be planned for it",
        node=node,
        remedies=remedies,
    )


def is_static(shape: Sequence[int | torch.SymInt]) -> bool:
    """Whether every size is a number."""
    return all(isinstance(size, int) or size.node.expr.is_number for size in shape)


def same_shape(a: Sequence[int | torch.SymInt], b: Sequence[int | torch.SymInt]) -> bool:
    """Whether two shapes are equal for all values of their symbols."""
    return len(a) == len(b) and all(_expression(x) == _expression(y) for x, y in zip(a, b))


def _expression(size: int | torch.SymInt) -> Any:
    return size if isinstance(size, int) else size.node.expr


def contiguous_order(rank: int) -> tuple[int, ...]:
    """The dim order of a contiguous tensor."""
    return tuple(range(rank))


def dim_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The order in which a tensor's dimensions lie in memory, outermost first.

    Kernels write contiguous or channels-last tensors and nothing else, so that any other strides
    that PyTorch would give a result (those of nonzero's are column-major) mean contiguous. Sizes
    of one leave both orders open; then only the very strides of a dense tensor tell them apart.
    """
    rank = tensor.dim()
    if tensor.layout == torch.strided and rank in (4, 5):
        strides, last = tensor.stride(), dense_strides(tensor.shape, True)
        if same_shape(strides, last) and not same_shape(last, dense_strides(tensor.shape, False)):
            return (0, *range(2, rank), 1)
    return contiguous_order(rank)


def nbytes(sizes: Sequence[int], element_size: int) -> int:
    """Bytes of a dense tensor."""
    return math.prod(sizes) * element_size
