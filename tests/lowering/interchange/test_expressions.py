"""Symbolic sizes come back equal, and hostile ones are refused before they take time or memory."""

from __future__ import annotations

import json

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.lowering.errors import InvalidFileError
from rules_executorch.lowering.interchange.expressions import ExpressionReader, ExpressionWriter
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

S0 = sympy.Symbol("s0", integer=True, positive=True)
U1 = sympy.Symbol("u1", integer=True)
POSITIVE = st.integers(1, 9).map(sympy.Integer)


def _grown(inner: st.SearchStrategy[sympy.Expr]) -> st.SearchStrategy[sympy.Expr]:
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(functions.FloorDiv, inner, POSITIVE),
        st.builds(functions.PythonMod, inner, POSITIVE),
        st.builds(functions.Max, inner, inner),
        st.builds(functions.Min, inner, inner),
    )


EXPRESSIONS = st.recursive(st.one_of(st.sampled_from([S0, U1]), POSITIVE), _grown, max_leaves=6)


def read_back(writer: ExpressionWriter) -> ExpressionReader:
    symbols = writer.described_symbols()
    return ExpressionReader(*json.loads(json.dumps([writer.table.entries, symbols])))


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_comes_back_equal(expression: sympy.Expr):
    writer = ExpressionWriter()
    index = writer.add(expression, None)
    assert read_back(writer).expression(index) == expression


@pytest.mark.parametrize(
    "expression",
    [int_oo, -int_oo, sympy.true, sympy.Eq(S0, 3), sympy.Float(1.5), sympy.Rational(1, 3), sympy.Integer(-2)],
)
def test_constants_and_relations_come_back(expression: sympy.Basic):
    writer = ExpressionWriter()
    index = writer.add(expression, None)
    again = read_back(writer).expression(index)
    assert again == expression and type(again) is type(expression)


def test_symbols_keep_their_hint_and_bounds():
    shape_env = ShapeEnv()
    shape_env.var_to_range[S0] = ValueRanges(2, 64)
    shape_env.add_backed_var_to_val(S0, 10)
    writer = ExpressionWriter()
    index = writer.add(S0 + 1, shape_env)
    size = read_back(writer).number("int", index)
    assert size.node.hint == 11
    bounds = size.node.shape_env.bound_sympy(size.node.expr)
    assert (bounds.lower, bounds.upper) == (3, 65)


@pytest.mark.parametrize(
    "table",
    [
        [10, ["Pow", 0, 1]],
        [10, 1_000_000_000, ["Pow", 0, 1]],
        [1, 10**9, ["LShift", 0, 1]],
        [2**100, ["Mul", 0, 0]],
        [["symbol", "s0"], *(["FloatTrueDiv", i, i] for i in range(60))],
        [["eval", 0]],
        [["Add", -1]],
        [["symbol", "unknown"]],
        [{"Add": 0}],
    ],
)
def test_hostile_tables_are_refused_at_once(table: list[object]):
    with pytest.raises((InvalidFileError, LookupError, TypeError, ValueError)):
        ExpressionReader(table, [["s0", ["integer", "positive"], None, None, None]])
