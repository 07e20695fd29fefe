"""Diagnostics show the place, mark the words, and say what to do."""

from __future__ import annotations

import pytest

from rules_executorch.builder.core.diagnostics import BuildError, Diagnostic, Location, nearest


def test_a_diagnostic_shows_the_line_with_the_words_marked() -> None:
    diagnostic = Diagnostic(
        "no such thing", Location("a/BUILD", 3, 10), '\tdeps = ["x"],', 3, ("did you mean 'y'?",), "write y"
    )
    assert diagnostic.render().split("\n") == [
        "a/BUILD:3:10: error: no such thing",
        '    3 | \tdeps = ["x"],',
        "      | \t        ^^^",
        "  note: did you mean 'y'?",
        "  to fix: write y",
    ]


def test_a_diagnostic_without_a_place_is_one_line() -> None:
    assert Diagnostic("nothing to build").render() == "error: nothing to build"


def test_an_error_prints_all_of_its_diagnostics() -> None:
    error = BuildError([Diagnostic("one"), Diagnostic("two")])
    assert str(error) == "error: one\nerror: two"


def test_an_error_has_at_least_one_diagnostic() -> None:
    with pytest.raises(ValueError):
        BuildError([])


@pytest.mark.parametrize(
    ("name", "expected"), [("sourcs", "srcs"), ("dep", "deps"), ("zzz", None), ("", None), ("deps", "deps")]
)
def test_the_nearest_name_is_near(name: str, expected: str | None) -> None:
    assert nearest(name, ["srcs", "deps", "visibility"]) == expected
