"""Sizes that are known only at run time: from their expressions to the graph nodes that compute them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions

from ..errors import LoweringError

SYM_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Symbols:
    """The expressions that a graph's nodes compute so far, and nodes for further ones on demand.

    The graph is only appended to, so a node made once serves all that come later.
    """

    def __init__(self, graph: Graph, shape_env: ShapeEnv | None):
        self._graph = graph
        self._shape_env = shape_env
        self._nodes: dict[sympy.Basic, Node] = {}
        self._dimensions: dict[sympy.Basic, tuple[Node, int]] = {}

    def learn(self, node: Node, val: Any) -> None:
        """Note what `node`'s value tells of symbols: `val` is a fake tensor, or a symbolic number."""
        if isinstance(val, torch.Tensor):
            for dimension, size in enumerate(val.shape):
                if isinstance(size, torch.SymInt):
                    self._dimensions.setdefault(size.node.expr, (node, dimension))
        elif isinstance(val, SYM_TYPES):
            self._nodes.setdefault(val.node.expr, node)

    def argument(self, value: Any) -> Any:
        """`value` as a node's argument: the Node that computes a symbolic number, a plain one as it is."""
        return self._lower(value.node.expr) if isinstance(value, SYM_TYPES) else value

    def _lower(self, expr: sympy.Basic) -> Any:
        if expr.is_Integer or isinstance(expr, sympy.logic.boolalg.BooleanAtom):
            return bool(expr) if not expr.is_Number else int(expr)
        if expr.is_Number:
            return float(expr)
        if expr in self._nodes:
            return self._nodes[expr]
        if expr in self._dimensions:
            node = self._graph.call_function(torch.ops.aten.sym_size.int, self._dimensions[expr])
        elif expr.is_Symbol:
            return self._solve(expr)
        else:
            node = self._compute(expr)
        return self._remember(node, expr)

    def _remember(self, node: Any, expr: sympy.Basic) -> Any:
        if isinstance(node, Node):
            node.meta.setdefault("val", self._symbolic_value(expr))
            self._nodes[expr] = node
        return node

    def _symbolic_value(self, expr: sympy.Basic) -> Any:
        assert self._shape_env is not None, "a symbolic size has a shape environment"
        if isinstance(expr, (sympy.core.relational.Relational, sympy.logic.boolalg.BooleanFunction)):
            return self._shape_env.create_symboolnode(expr)
        if not expr.is_integer:
            return self._shape_env.create_symfloatnode(expr, hint=None)
        return self._shape_env.create_symintnode(expr, hint=None)

    def _solve(self, symbol: sympy.Symbol) -> Node:
        """The symbol from a dimension that is linear in it, such as 2*s + 1."""
        for expr in list(self._dimensions):
            if expr.free_symbols == {symbol}:
                factor, rest = expr.coeff(symbol), expr.subs(symbol, 0)
                if factor.is_Integer and factor > 0 and rest.is_Integer and expr == factor * symbol + rest:
                    value = self._call(operator.sub, self._lower(expr), int(rest)) if rest else self._lower(expr)
                    return self._remember(self._call(operator.floordiv, value, int(factor)), symbol)
        raise LoweringError(
            f"the size {symbol} is used but is the size of no tensor at hand",
            remedies=["pass a tensor that has this size to the body of the loop or branch as an operand"],
        )

    def _compute(self, expr: sympy.Basic) -> Any:
        arguments = [self._lower(argument) for argument in expr.args]
        for kinds, build in _BUILDERS:
            if isinstance(expr, kinds):
                return build(self, *arguments)
        raise LoweringError(f"the runtime cannot compute the size {expr} ({type(expr).__name__})")

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A node that applies `function`, or the number itself where all arguments are known."""
        if not any(isinstance(a, Node) for a in arguments):
            return function(*arguments)
        node = self._graph.call_function(function, arguments)
        node.meta["val"] = function(*(a.meta["val"] if isinstance(a, Node) else a for a in arguments))
        return node

    def _fold(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Constants last: 2*s reads as mul(s, 2), which is how exported programs say it.
        first, *rest = sorted(arguments, key=lambda a: not isinstance(a, Node))
        for argument in rest:
            first = self._call(function, first, argument)
        return first

    def _power(self, base: Any, exponent: Any) -> Any:
        if not isinstance(exponent, int) or exponent < 1:
            raise LoweringError(f"the runtime has no kernel for a size to the power {exponent}")
        return self._fold(operator.mul, *[base] * exponent)

    def _ceil_div(self, dividend: Any, divisor: Any) -> Any:
        negated = self._call(operator.floordiv, self._call(operator.neg, dividend), divisor)
        return self._call(operator.neg, negated)

    def _not_equal(self, left: Any, right: Any) -> Any:
        return self._call(torch.sym_not, self._call(operator.eq, left, right))


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda symbols, *arguments: symbols._call(function, *arguments)


def _associative(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda symbols, *arguments: symbols._fold(function, *arguments)


# How each kind of expression is computed with what the runtime has: it has no `ne` and no `pow`,
# and its max and min take two arguments.
_BUILDERS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (sympy.Add, _associative(operator.add)),
    (sympy.Mul, _associative(operator.mul)),
    ((sympy.Pow, functions.PowByNatural), Symbols._power),
    ((sympy.Max, functions.Max), _associative(torch.sym_max)),
    ((sympy.Min, functions.Min), _associative(torch.sym_min)),
    (functions.CeilDiv, Symbols._ceil_div),
    (functions.FloorDiv, _binary(operator.floordiv)),
    ((sympy.Mod, functions.PythonMod, functions.Mod), _binary(operator.mod)),
    ((functions.IntTrueDiv, functions.FloatTrueDiv), _binary(operator.truediv)),
    (functions.ToFloat, _binary(torch.sym_float)),
    (functions.TruncToInt, _binary(math.trunc)),
    ((functions.FloorToInt, sympy.floor), _binary(math.floor)),
    ((functions.CeilToInt, sympy.ceiling), _binary(math.ceil)),
    (functions.RoundToInt, _binary(round)),
    (functions.Where, _binary(torch.sym_ite)),
    (functions.Identity, lambda symbols, argument: argument),
    (sympy.Eq, _binary(operator.eq)),
    (sympy.Ne, Symbols._not_equal),
    (sympy.Lt, _binary(operator.lt)),
    (sympy.Le, _binary(operator.le)),
    (sympy.Gt, _binary(operator.gt)),
    (sympy.Ge, _binary(operator.ge)),
    (sympy.Not, _binary(torch.sym_not)),
    (sympy.And, _associative(operator.and_)),
    (sympy.Or, _associative(operator.or_)),
)
