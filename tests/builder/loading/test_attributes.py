"""Attributes have the types that their rules declare, and mistakes in them are all told, at the word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loading import load_files, messages, target_of

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.core.label import Label, parse_label
from rules_executorch.builder.core.rule import Attribute, AttributeType
from rules_executorch.builder.loading.values import WrongValue, convert, plain

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def test_every_type_of_attribute_has_its_value(tmp_path: Path) -> None:
    files = {
        "p/BUILD": (
            'thing(name = "x", srcs = ["a.py", "sub/b.py", ":y", "//q"], one = ":y", text = "t", size = "large",\n'
            '    count = 3, flag = True, words = ("a", "b"), table = {"k": "v"}, tags = ["slow"],\n'
            '    data = {"l": [1, (2, None)], "d": {"e": 1.5}}, outs = ["o.txt"])\n'
            'thing(name = "y")\n'
        ),
        "p/a.py": "",
        "p/sub/b.py": "",
        "q/BUILD": 'thing(name = "q", visibility = ["//visibility:public"])\n',
    }
    x = target_of(load_files(tmp_path, files), "//p:x")
    assert x.attributes == {
        "name": "x",
        "visibility": ("//visibility:private",),
        "tags": ("slow",),
        "testonly": False,
        "srcs": (Label("", "p", "a.py"), Label("", "p", "sub/b.py"), Label("", "p", "y"), Label("", "q", "q")),
        "deps": (),
        "scripts": (),
        "one": Label("", "p", "y"),
        "outs": ("o.txt",),
        "text": "t",
        "size": "large",
        "count": 3,
        "flag": True,
        "words": ("a", "b"),
        "table": {"k": "v"},
        "data": {"l": (1, (2, None)), "d": {"e": 1.5}},
        "_hidden": "hidden",
    }
    assert x.dependencies == (*x.attributes["srcs"],)
    assert str(x.location) == "p/BUILD:1:1"


def test_what_is_not_given_or_is_none_has_its_default(tmp_path: Path) -> None:
    graph = load_files(tmp_path, {"BUILD": 'thing(name = "x", size = None, srcs = None)\n'})
    attributes = target_of(graph, "//:x").attributes
    assert (attributes["size"], attributes["count"], attributes["srcs"], attributes["one"]) == ("small", 1, (), None)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("srcs = 'a.py'", "expected a list of labels, not the string 'a.py'"),
        ("srcs = [1]", "expected a label, not the int 1"),
        ("srcs = ['a//b']", "'a//b' is not a label: 'a//b' is not a target name"),
        ("srcs = ['', ]", "a label cannot be empty"),
        ("srcs = ['a.py', ':a.py']", "//:a.py is listed twice"),
        ("one = ['a.py']", "expected a label, not the list ['a.py']"),
        ("text = 1", "expected a string, not the int 1"),
        ("text = b'x'", "expected a string, not the bytes b'x'"),
        ("size = 'huge'", "'huge' is not one of small, large"),
        ("count = '1'", "expected an int, not the string '1'"),
        ("count = True", "expected an int, not the bool True"),
        ("flag = 'yes'", "expected True or False, not the string 'yes'"),
        ("words = 'w'", "expected a list of strings, not the string 'w'"),
        ("words = ['w', 2]", "expected a list of strings, but it holds the int 2"),
        ("table = ['w']", "expected a dict of strings, not the list ['w']"),
        ("table = {'k': 1}", "expected a dict of strings, but it holds the int 1"),
        ("data = {1: 2}", "the keys of a dict must be strings, not the int 1"),
        ("data = b'x'", "expected strings, numbers, booleans, None, lists and dicts, not the bytes b'x'"),
        ("outs = ['../x']", "'../x' is not the path of a file in this package"),
        ("tags = 'manual'", "expected a list of strings, not the string 'manual'"),
    ],
)
def test_a_value_of_another_type_is_a_mistake(tmp_path: Path, attribute: str, message: str) -> None:
    name = attribute.partition(" ")[0]
    (found,) = messages(tmp_path, {"BUILD": f'thing(name = "x", {attribute})\n', "a.py": ""})
    place, _, told = found.partition(" ")
    assert told == f"'{name}' of thing 'x': {message}"
    # At the attribute, or at the very string in it.
    assert place.startswith("BUILD:1:") and int(place.split(":")[2]) >= 19


def test_all_mistakes_of_all_packages_are_told_at_once(tmp_path: Path) -> None:
    files = {
        "a/BUILD": (
            'thing(name = "x", sourcs = [])\n'
            'thing(name = "y", count = "1", flag = 7)\n'
            'thing(name = "z", text = 1 + "a")\n'
            "thing(name = nowhere)\n"
            'strict(name = "s")\n'
            "thing(srcs = [])\n"
            'thing("positional")\n'
            'thing(name = "x")\n'
            'thing(name = "ok", deps = [":missing", "//nowhere", "//b:gone"])\n'
        ),
        "b/BUILD": 'thing(name = "x", srcs = ["lost.py"])\n',
        "c/BUILD": "thing(\n",
    }
    assert messages(tmp_path, files) == [
        "a/BUILD:1:19: thing has no attribute 'sourcs'",
        "a/BUILD:2:19: 'count' of thing 'y': expected an int, not the string '1'",
        "a/BUILD:2:32: 'flag' of thing 'y': expected True or False, not the int 7",
        "a/BUILD:3:28: '+' cannot join int and string",
        "a/BUILD:4:14: 'nowhere' is not defined",
        "a/BUILD:5:1: strict 's' needs 'text'",
        "a/BUILD:6:1: thing() needs 'name'",
        "a/BUILD:7:1: thing() takes its attributes by name",
        "a/BUILD:8:14: there are two targets 'x' in //a",
        "a/BUILD:9:28: there is no target //a:missing",
        "a/BUILD:9:40: there is no package //nowhere",
        "a/BUILD:9:53: there is no target //b:gone",
        "b/BUILD:1:27: there is no file or target //b:lost.py",
        "c/BUILD:2:1: syntax error: ')' is expected here, not end of file",
    ]


def test_a_mistake_is_not_told_again_by_what_follows_from_it(tmp_path: Path) -> None:
    files = {
        "BUILD": (
            'L = undefined_thing + 1\nM = L\nthing(name = "x", srcs = M)\n'
            'thing(name = "y", deps = [":x"])\nthing(name = "z", count = "1")\n'
        ),
        "p/BUILD": 'thing(name = "q", deps = ["//:x", "//:z"])\n',
    }
    assert messages(tmp_path, files) == [
        "BUILD:1:5: 'undefined_thing' is not defined",
        "BUILD:5:19: 'count' of thing 'z': expected an int, not the string '1'",
    ]


def test_hidden_attributes_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        load_files(tmp_path, {"BUILD": 'thing(name = "x", _hidden = "y")\n'})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "thing has no attribute '_hidden'"
    assert "_hidden" not in " ".join(diagnostic.notes)


def test_functions_do_not_go_into_attributes(tmp_path: Path) -> None:
    (message,) = messages(
        tmp_path, {"BUILD": 'load(":m.bzl", "f")\nthing(name = "x", data = f)\n', "m.bzl": "def f(): pass"}
    )
    assert message.startswith("BUILD:2:6: a function cannot be given to a rule")


def test_mistakes_in_what_a_macro_makes_are_told_at_its_call(tmp_path: Path) -> None:
    files = {
        "m.bzl": 'def both(name, srcs):\n  thing(name = name + "_1", srcs = srcs, sizes = 1)\n  thing(name = name + "_2")\n',
        "BUILD": 'load(":m.bzl", "both")\n\nboth(\n    name = "x",\n    srcs = ["gone.py"],\n)\n',
        "p/BUILD": 'load("//:m.bzl", "both")\n',
    }
    with pytest.raises(BuildError) as caught:
        load_files(tmp_path, files)
    (diagnostic,) = caught.value.diagnostics
    assert str(diagnostic.location) == "BUILD:3:1"
    assert diagnostic.notes[-1] == "in a thing that this statement makes"


@given(JSON)
def test_plain_data_keeps_its_meaning(value: object) -> None:
    def same(left: object, right: object) -> bool:
        if isinstance(left, list):
            return isinstance(right, tuple) and len(left) == len(right) and all(map(same, left, right))
        if isinstance(left, dict):
            return isinstance(right, dict) and list(left) == list(right) and all(same(left[k], right[k]) for k in left)
        return left == right and type(left) is type(right)

    assert same(value, plain(value))


@given(st.sampled_from(list(AttributeType)), JSON)
def test_any_value_is_converted_or_refused(kind: AttributeType, value: object) -> None:
    try:
        convert(Attribute(kind, ""), value, lambda text: parse_label(text, package="p"))
    except WrongValue as error:
        assert str(error)


def test_data_that_is_nested_too_deeply_is_refused() -> None:
    value: list = []
    for _ in range(900):
        value = [value]
    with pytest.raises(WrongValue, match="nested more than"):
        plain(value)
