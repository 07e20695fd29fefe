"""Sources fall into their top-level statements, whatever is in them."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.loading.source import Source, read_source

# Statements that Python's own parser understands, too, so that it can be the judge.
STATEMENTS = st.sampled_from(
    [
        'load(":a.bzl", "b")',
        "x = [\n  1,\n]",
        "x = 1; y = 2",
        'f(\n    name = "a)",\n    srcs = glob(["*.py"]),\n)',
        '"""doc\n(not a bracket\n"""',
        "def f(a):\n    g(a)\n\n    return [a]",
        "z = 'it''s' + r\"\\\"\"",
        "f([[[[[1]]]]])",
        "# a comment (",
        "",
        "x = 1 + \\\n2",
        "a, b = (1, '#')",
        "f(a == 1, b = '\\'')",
        "é = 1",
    ]
)


@given(st.lists(STATEMENTS, max_size=8).map(lambda lines: "\n".join(lines) + "\n"))
def test_statements_begin_where_pythons_parser_says(text: str) -> None:
    found = [(s.line, s.start - (text.rfind("\n", 0, s.start) + 1)) for s in Source("BUILD", text).statements]
    expected = [(node.lineno, node.col_offset) for node in ast.parse(text).body]
    assert found == expected


@given(st.text(alphabet="ab\"'\\\n()[]#;= r", max_size=60))
def test_any_text_is_divided_without_loss(text: str) -> None:
    statements = Source("BUILD", text).statements
    position = 0
    for statement in statements:
        assert statement.start >= position and statement.end > statement.start
        assert not text[position : statement.start].strip(" \t\r\n;") or "#" in text or "\\" in text
        assert statement.line == text.count("\n", 0, statement.start) + 1
        position = statement.end


def test_statements_name_what_they_bind() -> None:
    text = "x = 1\ndef f(a):\n  b = 2\n(c, d) = e\ng(h = 1)\nload(':x', y = 'z')\n"
    assert [s.binds for s in Source("BUILD", text).statements] == [("x",), ("f",), ("c", "d"), (), ()]


def test_an_else_belongs_to_the_statement_before() -> None:
    assert len(Source("BUILD", "if x:\n  a()\nelse:\n  b()\nc()\n").statements) == 2


@pytest.mark.parametrize("unit", ["(", "[(", '"', '("', "f(a, ", "'''", "(()", "\\\n", '""'])
def test_dividing_takes_linear_time_even_where_nothing_closes(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    started = time.process_time()
    list(Source("BUILD", text).statements)
    # Quadratic time would be minutes.
    assert time.process_time() - started < 20


def test_bytes_that_are_not_utf8_are_a_mistake_with_a_line() -> None:
    with pytest.raises(BuildError, match="a/BUILD:2: error: a/BUILD is not text in UTF-8: byte 0xff"):
        read_source("a/BUILD", b"x = 1\n\xff\n")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert read_source("BUILD", b"\xef\xbb\xbfx = 1").text == "x = 1"


def test_a_nul_is_a_mistake() -> None:
    with pytest.raises(BuildError, match="BUILD:1:2: error: a NUL character"):
        read_source("BUILD", b"x\0")
