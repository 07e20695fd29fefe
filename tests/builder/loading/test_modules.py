"""load(): files see what they load and nothing else; each is executed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.loading import load_files, messages, names, target_of


def test_macros_constants_and_renamed_symbols_are_loaded(tmp_path: Path) -> None:
    files = {
        "b/BUILD": "",
        "b/m.bzl": (
            'load(":c.bzl", "WORDS", shout = "loud")\n'
            "def macro(name, **kwargs):\n"
            '    """Makes a thing."""\n'
            "    thing(name = name, words = [shout(w) for w in WORDS], **kwargs)\n"
            'EXTRA = WORDS + ["three"]\n'
        ),
        "b/c.bzl": 'WORDS = ["one", "two"]\ndef loud(word): return word.upper()\n',
        "BUILD": (
            'load("//b:m.bzl", "EXTRA", make = "macro")\n'
            'make(name = "x", text = "t")\n'
            'thing(name = "y", words = EXTRA)\n'
        ),
    }
    graph = load_files(tmp_path, files)
    assert target_of(graph, "//:x").attributes["words"] == ("ONE", "TWO")
    assert target_of(graph, "//:x").attributes["text"] == "t"
    assert target_of(graph, "//:y").attributes["words"] == ("one", "two", "three")


def test_functions_keep_what_their_own_file_loaded(tmp_path: Path) -> None:
    """Two files bind one name to different things; each function sees its own file's."""
    files = {
        "BUILD": 'load(":a.bzl", "f")\nload(":d.bzl", "helper")\nf(name = "x")\nthing(name = "y", text = helper())\n',
        "a.bzl": 'load(":c.bzl", "helper")\ndef f(name): thing(name = name, text = helper())\n',
        "c.bzl": 'def helper(): return _private()\ndef _private(): return "c"\n',
        "d.bzl": 'def helper(): return _private()\ndef _private(): return "d"\n',
    }
    graph = load_files(tmp_path, files)
    assert target_of(graph, "//:x").attributes["text"] == "c"
    assert target_of(graph, "//:y").attributes["text"] == "d"


def test_a_macro_may_have_the_name_of_a_rule_that_it_wraps(tmp_path: Path) -> None:
    files = {
        "BUILD": 'load(":m.bzl", "thing")\nthing(name = "x")\nstrict(name = "s", text = "t")\n',
        "m.bzl": 'def thing(name): native.thing(name = name + "_1")\n',
        "p/BUILD": 'thing(name = "plain")\n',
    }
    # `native.thing` is the rule even where `thing` is the macro.
    assert names(load_files(tmp_path, files)) == ["//:x_1", "//:s", "//p:plain"]


def test_a_file_is_executed_once_however_many_load_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {"m.bzl": 'print("executed")\ndef f(name): thing(name = name)\n', "BUILD": ""}
    for package in "abc":
        files[f"{package}/BUILD"] = 'load("//:m.bzl", "f")\nf(name = "x")\n'
    assert len(load_files(tmp_path, files).roots) == 3
    assert capfd.readouterr().err.count("DEBUG: m.bzl: executed") == 1


def test_nothing_leaks_from_one_file_into_another(tmp_path: Path) -> None:
    files = {
        "a/BUILD": 'load("//:m.bzl", "f")\nSECRET = "s"\nglob = "mine"\nthing(name = "x")\n',
        "b/BUILD": 'thing(name = "x", text = SECRET)\nf(name = "y")\nthing(name = "z", srcs = glob(["*"]))\n',
        "m.bzl": "def f(name): thing(name = name)\n",
        "BUILD": "",
    }
    assert messages(tmp_path, files) == ["b/BUILD:1:26: 'SECRET' is not defined", "b/BUILD:2:1: 'f' is not defined"]


def test_values_of_another_file_are_frozen(tmp_path: Path) -> None:
    files = {"BUILD": 'load(":m.bzl", "L")\nL.append(1)\nthing(name = "x")\n', "m.bzl": "L = []\n"}
    (message,) = messages(tmp_path, files)
    assert "BUILD:2:" in message and "frozen" in message


def test_a_build_file_may_go_on_with_its_own_values(tmp_path: Path) -> None:
    graph = load_files(tmp_path, {"BUILD": 'W = ["a"]\nW += ["b"]\nW.append("c")\nthing(name = "x", words = W)\n'})
    assert target_of(graph, "//:x").attributes["words"] == ("a", "b", "c")


def test_a_cycle_of_loads_is_told_with_its_chain(tmp_path: Path) -> None:
    files = {
        "BUILD": 'load(":a.bzl", "a")\na()\n',
        "a.bzl": 'load(":b.bzl", "b")\na = b\n',
        "b.bzl": 'load(":a.bzl", "a")\nb = a\n',
    }
    assert messages(tmp_path, files) == ["b.bzl:1:6: load cycle: //:a.bzl → //:b.bzl → //:a.bzl"]


def test_a_long_chain_of_loads_is_a_mistake_not_a_crash(tmp_path: Path) -> None:
    files = {f"m{i}.bzl": f'load(":m{i + 1}.bzl", "x")\n' for i in range(3000)}
    files["BUILD"] = 'load(":m0.bzl", "x")\n'
    (message,) = messages(tmp_path, files)
    assert "more than 100 files load one another in a chain" in message


def test_a_mistake_in_a_module_is_told_once(tmp_path: Path) -> None:
    files = {
        "m.bzl": "def f(name): thing(name = undefined_name)\n",
        "BUILD": 'load(":m.bzl", "f")\nf(name = "x")\n',
        "p/BUILD": 'load("//:m.bzl", "f")\nf(name = "y")\n',
    }
    assert messages(tmp_path, files) == ["m.bzl:1:27: 'undefined_name' is not defined"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('load(":m.bzl", "nothing")', "1:16: :m.bzl does not define 'nothing'"),
        ('load(":m.bzl", "_private")', "1:16: '_private' is private to its file, as all names that begin with '_'"),
        ('load(":m.bzl", "loaded")', "1:16: :m.bzl does not define 'loaded'"),
        ('load(":m.bzl")', "1:6: this load() names nothing to load"),
        ("load()", "1:1: load() takes literal strings only: a .bzl file, then the names to load from it"),
        (
            'load(":m.bzl", NAME)',
            "1:16: load() takes literal strings only: a .bzl file, then the names to load from it",
        ),
        (
            'load(":m.bzl", "f" + "g")',
            "1:20: load() takes literal strings only: a .bzl file, then the names to load from it",
        ),
        ('load(":m.py", "f")', "1:6: ':m.py' cannot be loaded: it is not a .bzl file"),
        ('load(":n.bzl", "f")', "1:6: ':n.bzl' cannot be loaded: there is no file n.bzl in //"),
        ('load("//q:n.bzl", "f")', "1:6: '//q:n.bzl' cannot be loaded: there is no file n.bzl in //q"),
        ('load("//nobuild:n.bzl", "f")', "1:6: '//nobuild:n.bzl' cannot be loaded: //nobuild is not a package"),
        ('load("//:p/m.bzl", "f")', "1:6: '//:p/m.bzl' crosses into the package //p"),
        ('load("@nowhere//:n.bzl", "f")', "1:6: there is no repository '@nowhere'"),
        ('load(":m.bzl", "f", f = "g")', "1:25: 'f' is loaded twice"),
    ],
)
def test_mistakes_in_a_load(tmp_path: Path, statement: str, message: str) -> None:
    files = {
        "m.bzl": 'load(":other.bzl", "loaded")\ndef f(name): pass\ndef g(name): pass\n_private = 1\n',
        "other.bzl": "loaded = 1\n",
        "p/BUILD": "",
        "p/m.bzl": "f = 1",
        "nobuild/n.bzl": "f = 1",
        # That the name is not there afterwards is not told again.
        "BUILD": statement + '\nf(name = "x")\nnothing()\n',
    }
    found = [m for m in messages(tmp_path, files) if "'nothing' is not defined" not in m]
    assert [m for m in found if "'f' is not defined" not in m] == [f"BUILD:{message}"]


def test_rules_cannot_be_called_while_a_module_is_loaded(tmp_path: Path) -> None:
    files = {"m.bzl": 'thing(name = "x")\nf = 1\n', "BUILD": 'load(":m.bzl", "f")\n'}
    (message,) = messages(tmp_path, files)
    assert message == "m.bzl:1:6: thing() can be called only while a BUILD file is evaluated: put it into a macro"


def test_failures_in_a_macro_tell_who_called(tmp_path: Path) -> None:
    files = {
        "BUILD": 'load(":m.bzl", "f")\nf(\n  name = "x",\n)\n',
        "m.bzl": "def f(name):\n    g(name)\ndef g(name):\n    return name + 1\n",
    }
    assert messages(tmp_path, files) == ["m.bzl:4:17: '+' cannot join string and int"]


def test_fail_is_told_where_the_build_file_calls(tmp_path: Path) -> None:
    files = {"BUILD": 'load(":m.bzl", "f")\nf(name = "x")\n', "m.bzl": 'def f(name):\n    fail("no", name)\n'}
    assert messages(tmp_path, files) == ["BUILD:2:2: no x"]


def test_a_loaded_name_cannot_be_bound_again(tmp_path: Path) -> None:
    files = {"BUILD": 'load(":m.bzl", "f")\nf = 1\n', "m.bzl": "f = 2\n"}
    assert messages(tmp_path, files) == ["BUILD:2:1: 'f' is loaded, and cannot be defined again"]
