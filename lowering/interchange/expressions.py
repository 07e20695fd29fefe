"""Symbolic sizes: sympy expressions and the symbols in them, to and from plain data.

An expression table holds each subexpression once: `[function, index, …]` over earlier entries, an
integer as itself, a float as `["float", x]`, a symbol as `["symbol", name]`. Reading builds
expressions through their constructors alone: nothing in a file is evaluated as code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from ..errors import InvalidFileError
from .interning import Table

_FUNCTIONS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        sympy.Add, sympy.Mul, sympy.Pow, sympy.Rational, sympy.And, sympy.Or, sympy.Not,
        sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge,
        functions.FloorDiv, functions.ModularIndexing, functions.Where, functions.PythonMod, functions.Mod,
        functions.CleanDiv, functions.CeilToInt, functions.FloorToInt, functions.CeilDiv, functions.LShift,
        functions.RShift, functions.Max, functions.Min, functions.PowByNatural, functions.FloatPow,
        functions.FloatTrueDiv, functions.IntTrueDiv, functions.TruncToFloat, functions.TruncToInt,
        functions.RoundToInt, functions.RoundDecimal, functions.ToFloat, functions.Identity,
        functions.OpaqueUnaryFn_sqrt, functions.OpaqueUnaryFn_exp, functions.OpaqueUnaryFn_log,
    )
}  # fmt: skip
_NAMES = {cls: name for name, cls in _FUNCTIONS.items()}
FUNCTION_NAMES = frozenset(_FUNCTIONS)
_CONSTANTS: dict[str, Any] = {
    "int_oo": int_oo, "-int_oo": -int_oo, "oo": sympy.oo, "-oo": -sympy.oo, "nan": sympy.nan,
    "true": sympy.true, "false": sympy.false,
}  # fmt: skip
_ASSUMPTIONS = ("integer", "real", "positive", "nonnegative")

# A file may share subexpressions so that a short one stands for a huge one: these bound it.
_LARGEST_TREE = 20_000
_MOST_BITS = 128


class ExpressionWriter:
    """Collects expressions and the symbols in them."""

    def __init__(self) -> None:
        self.table = Table()
        self.symbols: dict[sympy.Symbol, ShapeEnv | None] = {}

    def add(self, expression: Any, shape_env: ShapeEnv | None) -> int:
        """The index of `expression` in the table. Raises TypeError for what cannot be written."""
        # 1, 1.0 and True are equal keys: the type tells them apart.
        expression = sympy.sympify(expression)
        key = (type(expression), expression)
        known = self.table.find(key)
        return known if known is not None else self.table.add(key, self._entry(expression, shape_env))

    def _entry(self, expression: Any, shape_env: ShapeEnv | None) -> Any:
        if isinstance(expression, sympy.Symbol):
            if self.symbols.get(expression) is None:
                self.symbols[expression] = shape_env
            return ["symbol", expression.name]
        if isinstance(expression, sympy.Integer):
            return int(expression)
        for name, constant in _CONSTANTS.items():
            if expression is constant:
                return ["constant", name]
        if isinstance(expression, sympy.Float):
            return ["float", float(expression)]
        if isinstance(expression, sympy.Rational):
            return ["Rational", self.add(expression.p, shape_env), self.add(expression.q, shape_env)]
        name = _NAMES.get(type(expression))
        if name is None:
            raise TypeError(f"a size with {type(expression).__name__} in it: {expression}")
        # sympy orders the arguments of sums, products and sets by its own hash-independent order.
        args = sorted(expression.args, key=sympy.default_sort_key) if _is_unordered(expression) else expression.args
        return [name, *(self.add(arg, shape_env) for arg in args)]

    def described_symbols(self) -> list[list[Any]]:
        """`[name, assumptions, hint, lower, upper]` of all symbols, by name; may add to the table."""
        described = []
        for symbol, shape_env in sorted(self.symbols.items(), key=lambda item: item[0].name):
            assumptions = [name for name in _ASSUMPTIONS if symbol.assumptions0.get(name)]
            bounds = shape_env.var_to_range.get(symbol) if shape_env is not None else None
            hint = shape_env.backed_var_to_val.get(symbol) if shape_env is not None else None
            described.append(
                [
                    symbol.name,
                    assumptions,
                    None if hint is None else self.add(hint, shape_env),
                    None if bounds is None else self.add(bounds.lower, shape_env),
                    None if bounds is None else self.add(bounds.upper, shape_env),
                ]
            )
        return described


def _is_unordered(expression: Any) -> bool:
    return isinstance(expression, (sympy.Add, sympy.Mul, sympy.And, sympy.Or, functions.Max, functions.Min))


class ExpressionReader:
    """Gives back expressions, and symbolic numbers that share one ShapeEnv."""

    def __init__(self, table: Sequence[Any], symbols: Sequence[Sequence[Any]]):
        self.shape_env = ShapeEnv()
        assumptions = {name: {flag: True for flag in flags} for name, flags, *_ in symbols}
        self._expressions: list[Any] = []
        sizes: list[int] = []
        for entry in table:
            expression, size = self._decode(entry, assumptions, sizes)
            self._expressions.append(expression)
            sizes.append(size)
        self._numbers: dict[tuple[str, int], Any] = {}
        for name, _, hint, lower, upper in symbols:
            self._declare(sympy.Symbol(name, **assumptions[name]), hint, lower, upper)

    def expression(self, index: int) -> Any:
        """The sympy expression at `index`."""
        if type(index) is not int or index < 0:
            raise InvalidFileError(f"edge program: {index!r} is no index of an expression")
        return self._expressions[index]

    def number(self, kind: str, index: int) -> Any:
        """The SymInt ("int"), SymFloat ("float") or SymBool ("bool") with the expression at `index`."""
        key = (kind, index)
        if key not in self._numbers:
            expression = self.expression(index)
            if kind == "int":
                self._numbers[key] = self.shape_env.create_symintnode(expression, hint=None)
            elif kind == "float":
                self._numbers[key] = self.shape_env.create_symfloatnode(expression, hint=None)
            else:
                self._numbers[key] = self.shape_env.create_symboolnode(expression)
        return self._numbers[key]

    def _decode(self, entry: Any, assumptions: dict[str, dict[str, bool]], sizes: list[int]) -> tuple[Any, int]:
        if type(entry) is int:
            return _bounded(sympy.Integer(entry)), 1
        if not isinstance(entry, list):
            raise InvalidFileError(f"edge program: {entry!r} is no expression")
        kind, *rest = entry
        if kind == "symbol":
            return sympy.Symbol(rest[0], **assumptions[rest[0]]), 1
        if kind == "constant":
            return _CONSTANTS[rest[0]], 1
        if kind == "float":
            return sympy.Float(rest[0]), 1
        size = 1 + sum(sizes[index] for index in rest)
        if size > _LARGEST_TREE:
            raise InvalidFileError("edge program: an expression of a size is too large")
        args = [self.expression(index) for index in rest]
        if kind == "Rational":
            return sympy.Rational(int(args[0]), int(args[1])), size
        if all(arg.is_number for arg in args) and "Pow" in kind or kind in ("LShift", "RShift"):
            if any(abs(arg) > _MOST_BITS for arg in args[1:] if arg.is_number):
                raise InvalidFileError("edge program: a power in a size is too large")
        return _bounded(_FUNCTIONS[kind](*args)), size

    def _declare(self, symbol: sympy.Symbol, hint: int | None, lower: int | None, upper: int | None) -> None:
        if lower is not None and upper is not None:
            self.shape_env.var_to_range[symbol] = ValueRanges(self.expression(lower), self.expression(upper))
        if hint is not None:
            self.shape_env.add_backed_var_to_val(symbol, int(self.expression(hint)))
        self.shape_env.var_to_stack[symbol] = torch.utils._traceback.CapturedTraceback.extract(skip=1)
        self.shape_env.var_to_sources.setdefault(symbol, [])


def _bounded(expression: Any) -> Any:
    if isinstance(expression, sympy.Integer) and int(expression).bit_length() > _MOST_BITS:
        raise InvalidFileError("edge program: a number in a size is too large")
    if not isinstance(expression, (sympy.Expr, BooleanAtom, sympy.logic.boolalg.Boolean)):
        raise InvalidFileError("edge program: a size is not an expression")
    return expression
