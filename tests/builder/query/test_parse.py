"""Query expressions parse, print, and tell what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.query.expression import Call, Expression, Let, Operation, Set, Word
from rules_executorch.builder.query.parse import parse

NAME = st.from_regex(r"[a-z_]{1,6}", fullmatch=True).filter(
    lambda n: n not in ("let", "in", "set", "union", "intersect", "except")
)
WORD = st.builds(Word, st.from_regex(r"//[a-z/.:*-]{0,8}", fullmatch=True) | st.text(max_size=6).filter(
    lambda t: not ('"' in t and "'" in t)
))  # fmt: skip
EXPRESSION: st.SearchStrategy[Expression] = st.recursive(
    WORD | st.builds(Set, st.lists(WORD, max_size=3).map(tuple)),
    lambda inner: st.one_of(
        st.builds(Operation, st.sampled_from("+^-"), inner, inner),
        st.builds(Call, NAME, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Let, NAME, inner, inner),
    ),
    max_leaves=8,
)


@given(EXPRESSION)
def test_an_expression_survives_printing_and_parsing(expression: Expression) -> None:
    assert parse(str(expression)) == expression


@given(st.text(alphabet="ab/:.()+-^,='\"$ lets", max_size=40))
def test_any_text_is_an_expression_or_a_mistake(text: str) -> None:
    try:
        assert parse(str(parse(text))) == parse(text)
    except BuildError as error:
        (diagnostic,) = error.diagnostics
        assert diagnostic.location is not None and diagnostic.location.column <= len(text) + 1


def test_operators_bind_equally_and_to_the_left() -> None:
    assert parse("a + b - c ^ d") == parse("((a union b) except c) intersect d")
    assert parse("a - (b - c)") != parse("a - b - c")


def test_words_may_hold_what_labels_and_patterns_do() -> None:
    for text in ("//a/...", "@repo//a-b:c.d", ":all", "a/b", "//a:*", "$x", "..."):
        assert parse(text) == Word(text)
    assert parse("'a b'") == parse('"a b"') == Word("a b")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "an expression is missing here"),
        ("deps(", 6, "an expression is missing here"),
        ("deps(//a", 9, "')' is expected here"),
        ("//a //b", 5, "'//b' is not expected here"),
        ("a + + b", 5, "an expression is expected here, not '+'"),
        ("deps(a,)", 8, "an expression is expected here, not ')'"),
        ("'a", 1, "this quote is not closed"),
        ("a & b", 3, "'&' has no meaning in a query"),
        ("let 1 = a in b", 5, "a variable's name is expected after 'let'"),
        ("let x = a", 10, "'in' is expected here"),
        ("in", 1, "an expression is expected here, not 'in'"),
        ("deps(a,\n  ?)", 3, "'?' has no meaning in a query"),
    ],
)
def test_mistakes_are_told_with_their_place(text: str, column: int, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        parse(text)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.location.column, diagnostic.message) == (column, message)


@pytest.mark.parametrize(
    "text", ["(" * 5000 + "a", "deps(" * 5000, "let x = " * 5000, "a + (" * 5000, "let x = a in " * 5000]
)
def test_deep_nesting_is_a_mistake_not_a_crash(text: str) -> None:
    with pytest.raises(BuildError, match="nested more than 100 deep"):
        parse(text)


def test_long_sums_are_fine_and_endless_ones_a_mistake() -> None:
    expression = parse(" + ".join(["//a"] * 200))
    assert isinstance(expression, Operation) and parse(str(expression)) == expression
    with pytest.raises(BuildError, match="more than 200 operators"):
        parse(" + ".join(["//a"] * 5000))
