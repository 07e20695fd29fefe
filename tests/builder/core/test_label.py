"""Labels parse, print, and refuse what is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules_executorch.builder.core.label import Label, LabelSyntaxError, parse_label

SEGMENT = st.from_regex(r"[A-Za-z0-9_.+=-]{1,8}", fullmatch=True).filter(lambda s: s not in (".", ".."))
PATH = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
# "main" is the main repository's own name, and so not another's.
REPOSITORY = st.just("") | st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda s: s != "main")
LABELS = st.builds(Label, REPOSITORY, st.just("") | PATH, PATH)


@given(LABELS)
def test_a_label_survives_printing_and_parsing(label: Label) -> None:
    assert parse_label(str(label)) == label


@given(LABELS)
def test_a_label_prints_the_same_wherever_it_is_read(label: Label) -> None:
    absolute = str(label) if label.repo else f"@main{label}"
    assert parse_label(absolute, repo="elsewhere", package="some/where", main_repo="main") == label


@given(st.text(max_size=30))
@example("//a:")
@example("//:")
@example("@//a:b")
def test_any_text_is_a_label_or_a_label_syntax_error(text: str) -> None:
    try:
        label = parse_label(text, repo="r", package="p")
    except LabelSyntaxError:
        return
    assert parse_label(str(label)) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (":x", Label("r", "p/q", "x")),
        ("x", Label("r", "p/q", "x")),
        ("a/b.py", Label("r", "p/q", "a/b.py")),
        ("//a", Label("r", "a", "a")),
        ("//a/b", Label("r", "a/b", "b")),
        ("//a:b/c", Label("r", "a", "b/c")),
        ("@s//a:b", Label("s", "a", "b")),
        ("@main//a:b", Label("", "a", "b")),
        ("@//a:b", Label("", "a", "b")),
    ],
)
def test_labels_are_relative_to_where_they_stand(text: str, label: Label) -> None:
    assert parse_label(text, repo="r", package="p/q", main_repo="main") == label


@pytest.mark.parametrize(
    "text", ["", ":", "//", "a//b", "//a:..", "//../a:b", "//a:/b", "@r:b", "//a:b:c", "/a", "@1//a"]
)
def test_what_is_no_label_is_refused(text: str) -> None:
    with pytest.raises(LabelSyntaxError):
        parse_label(text, package="p")
