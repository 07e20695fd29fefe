"""Queries answer what is asked of a graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.analysed import write_workspace
from support.loading import SCHEMAS

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.loading.workspace import find_workspace
from rules_executorch.builder.query.output import render
from rules_executorch.builder.query.query import query

#  a → b → c → f.txt     t (a test) → b     m (manual) → a     g makes o.txt ← h
FILES = {
    "p/BUILD": (
        'package(default_visibility = ["//visibility:public"])\n'
        'thing(name = "a", deps = [":b"], tags = ["slow", "big"])\n'
        'thing(name = "b", deps = [":c"], flag = True)\n'
        'thing(name = "c", srcs = ["f.txt"], words = ["x"])\n'
        'thing(name = "g", outs = ["o.txt"])\n'
        'thing(name = "h", srcs = ["o.txt"])\n'
    ),
    "p/f.txt": "",
    "q/BUILD": 'thing_test(name = "t", deps = ["//p:b"])\nthing(name = "m", deps = ["//p:a"], tags = ["manual"])\n',
    "q/r/BUILD": 'alias(name = "r", actual = "//p:h")\n',
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("query")
    write_workspace(root, FILES)
    return root


def answer(root: Path, expression: str, package: str = "") -> list[str]:
    found = query(find_workspace(root), expression, SCHEMAS, relative_package=package)
    return [str(label) for label in found.labels]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("//p:a", "//p:a"),
        ("//q/...", "//q:m //q:t //q/r:r"),
        ("//q:all", "//q:m //q:t"),
        ("deps(//p:a)", "//p:a //p:b //p:c //p:f.txt"),
        ("deps(//p:a, 1)", "//p:a //p:b"),
        ("deps(//p:a, 0)", "//p:a"),
        ("deps(//p:h)", "//p:g //p:h //p:o.txt"),
        ("rdeps(//..., //p:b)", "//p:a //p:b //q:m //q:t"),
        ("rdeps(//..., //p:b, 1)", "//p:a //p:b //q:t"),
        ("rdeps(//q:t, //p:c)", "//p:b //p:c //q:t"),
        ("rdeps(//q:t, //p:a)", ""),
        ("kind(thing_test, //...)", "//q:t"),
        ("kind('source file', deps(//p:a))", "//p:f.txt"),
        ("kind('generated', deps(//p:h))", "//p:o.txt"),
        ("kind('^thing rule$', //p:all)", "//p:a //p:b //p:c //p:g //p:h"),
        ("attr(tags, 'slow', //...)", "//p:a"),
        ("attr(tags, '\\[slow, big\\]', //...)", "//p:a"),
        ("attr(flag, 1, //...)", "//p:b"),
        ("attr(words, x, //...)", "//p:c"),
        ("attr(name, '^[ab]$', //...)", "//p:a //p:b"),
        ("attr(nothing, '', //...)", ""),
        ("filter('q', //...)", "//q:m //q:t //q/r:r"),
        ("labels(srcs, //p:all)", "//p:f.txt //p:o.txt"),
        ("labels(actual, //q/r)", "//p:h"),
        ("tests(//...)", "//q:t"),
        ("allpaths(//q:m, //p:c)", "//p:a //p:b //p:c //q:m"),
        ("allpaths(//p:c, //q:m)", ""),
        ("//p:a + //p:b", "//p:a //p:b"),
        ("deps(//p:a) - deps(//p:b)", "//p:a"),
        ("deps(//p:a) except //p:f.txt ^ //p:all", "//p:a //p:b //p:c"),
        ("deps(//p:a) intersect deps(//q:t)", "//p:b //p:c //p:f.txt"),
        ("set(//p:a //q:t)", "//p:a //q:t"),
        ("set()", ""),
        ("let x = deps(//p:a) in $x - //p:b", "//p:a //p:c //p:f.txt"),
        ("let x = //p:a in let x = //p:b in $x", "//p:b"),
        ("@w//p:a", "//p:a"),
    ],
)
def test_queries(root: Path, expression: str, expected: str) -> None:
    assert answer(root, expression) == expected.split()


def test_a_path_is_in_its_order(root: Path) -> None:
    assert answer(root, "somepath(//q:m, //p:f.txt)") == ["//q:m", "//p:a", "//p:b", "//p:c", "//p:f.txt"]
    assert answer(root, "somepath(//p:c, //q:m)") == []


def test_patterns_are_relative_to_where_the_query_is_asked(root: Path) -> None:
    assert answer(root, "deps(:h)", package="p") == ["//p:g", "//p:h", "//p:o.txt"]
    assert answer(root, "...", package="q") == ["//q:m", "//q:t", "//q/r:r"]


def test_labels_are_printed_one_to_a_line(root: Path) -> None:
    found = query(find_workspace(root), "//q:all", SCHEMAS)
    assert render(found, "label") == "//q:m\n//q:t\n"


def test_a_graph_has_the_edges_between_what_was_found(root: Path) -> None:
    found = query(find_workspace(root), "deps(//p:a) - //p:f.txt", SCHEMAS)
    assert render(found, "graph").splitlines() == [
        "digraph query {",
        "  node [shape=box];",
        '  "//p:a";',
        '  "//p:b";',
        '  "//p:c";',
        '  "//p:a" -> "//p:b";',
        '  "//p:b" -> "//p:c";',
        "}",
    ]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("dep(//p:a)", "query:1:1: error: there is no function 'dep'"),
        ("deps()", "query:1:6: error: an expression is expected here, not ')'"),
        ("deps(//p:a, 1, 2)", "query:1:1: error: deps() takes 1 or 2 arguments, not 3"),
        ("deps(//p:a, x)", "query:1:13: error: 'x' is not a number"),
        ("kind(deps(//p:a), //p:a)", "query:1:1: error: kind() takes a word here: kind(WORD, EXPRESSION)"),
        ("kind('(', //p:a)", "query:1:6: error: '(' is not a regular expression"),
        ("$x", "query:1:1: error: there is no variable '$x'"),
        ("let x = //p:a in $y", "query:1:18: error: there is no variable '$y'"),
        ("deps(//gone)", "error: there is no package //gone"),
        ("deps(//p:gone)", "error: there is no target //p:gone"),
        ("deps(//p:a:b)", "error: '//p:a:b' is not a target pattern"),
    ],
)
def test_mistakes_in_queries(root: Path, expression: str, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        answer(root, expression)
    assert message in str(caught.value)
