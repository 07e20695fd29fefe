"""select() takes the branch whose config_setting holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.loading import load_files, messages, target_of

SETTINGS = (
    'config_setting(name = "release", values = {"config": "release"})\n'
    'config_setting(name = "fast", values = {"config": "fast"})\n'
    'alias(name = "shipping", actual = ":release")\n'
)


def select_in(root: Path, attribute: str, *configs: str) -> object:
    name = attribute.partition(" ")[0]
    graph = load_files(
        root, {"BUILD": SETTINGS + f'thing(name = "x", {attribute})\n', "c/BUILD": SETTINGS}, configs=configs
    )
    return target_of(graph, "//:x").attributes[name]


@pytest.mark.parametrize(
    ("attribute", "released", "otherwise"),
    [
        (
            'words = ["a"] + select({":release": ["r"], "//conditions:default": ["d"]}) + ["z"]',
            ("a", "r", "z"),
            ("a", "d", "z"),
        ),
        ('words = select({"//:release": ["r"], "//conditions:default": []})', ("r",), ()),
        ('words = select({"//c:release": ("r",), "//conditions:default": None})', ("r",), ()),
        ('words = select({":shipping": ["r"], "//conditions:default": ["d"]})', ("r",), ("d",)),
        ('text = "a" + select({":release": "r", "//conditions:default": "d"}) + "z"', "arz", "adz"),
        ('text = select({":release": "r", "//conditions:default": None})', "r", ""),
        ('count = select({":release": 2, "//conditions:default": 3})', 2, 3),
        ('flag = select({":release": True, "//conditions:default": False})', True, False),
        ('table = select({":release": {"k": "r"}, "//conditions:default": {}})', {"k": "r"}, {}),
        ('data = select({":release": {"k": [1]}, "//conditions:default": None})', {"k": (1,)}, None),
        (
            'data = {"k": ["a"] + select({":release": ["r"], "//conditions:default": []}), "l": {"m": "x"}}',
            {"k": ("a", "r"), "l": {"m": "x"}},
            {"k": ("a",), "l": {"m": "x"}},
        ),
        ('table = {"k": select({":release": "r", "//conditions:default": "d"})}', {"k": "r"}, {"k": "d"}),
        (
            'table = {"j": "1"} | select({":release": {"k": "r"}, "//conditions:default": {}})',
            {"j": "1", "k": "r"},
            {"j": "1"},
        ),
    ],
)
def test_the_branch_that_holds_is_taken(tmp_path: Path, attribute: str, released: object, otherwise: object) -> None:
    assert select_in(tmp_path / "1", attribute, "release") == released
    assert select_in(tmp_path / "2", attribute) == otherwise


def test_two_selects_are_independent(tmp_path: Path) -> None:
    attribute = (
        'words = select({":release": ["r"], "//conditions:default": []}) + '
        'select({":fast": ["f"], "//conditions:default": ["slow"]})'
    )
    assert select_in(tmp_path, attribute, "release", "fast") == ("r", "f")


def test_a_select_of_a_constant_in_a_module_is_relative_to_the_package_that_uses_it(tmp_path: Path) -> None:
    files = {
        "BUILD": "",
        "m.bzl": 'WORDS = select({":release": ["r"], "//conditions:default": []})\n',
        "p/BUILD": 'load("//:m.bzl", "WORDS")\n' + SETTINGS + 'thing(name = "x", words = WORDS)\n',
    }
    assert target_of(load_files(tmp_path, files, configs=("release",)), "//p:x").attributes["words"] == ("r",)


def test_labels_in_the_branch_that_is_not_taken_are_no_dependencies(tmp_path: Path) -> None:
    files = {
        "BUILD": SETTINGS + 'thing(name = "x", deps = select({":release": ["//gone"], "//conditions:default": []}))\n'
    }
    assert target_of(load_files(tmp_path / "1", files), "//:x").dependencies == ()
    assert "there is no package //gone" in messages(tmp_path / "2", files, configs=("release",))[0]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('words = select({":release": ["r"]})', "no condition of the select() in 'words' holds"),
        ('words = select({":release": ["r"]}, no_match_error = "release only")', "release only"),
        ('words = select({":relaese": ["r"], "//conditions:default": []})', "there is no target //:relaese"),
        ('words = select({"//gone:x": ["r"], "//conditions:default": []})', "there is no package //gone"),
        ('words = select({":x": ["r"], "//conditions:default": []})', "//:x is a thing, not a config_setting"),
        (
            'words = select({"//a:b:c": ["r"], "//conditions:default": []})',
            "'//a:b:c' is not a label: 'b:c' is not a target name",
        ),
        ("words = select({})", "select takes a dict of at least one condition and what to use where it holds"),
        ("words = select([])", "select takes a dict of at least one condition and what to use where it holds"),
        (
            'words = ["a"] + select({"//conditions:default": ["d"], ":fast": "f"})',
            None,
        ),
        ('words = "a" + select({"//conditions:default": ["d"]})', "'+' cannot join string and list"),
        (
            'words = select({"//conditions:default": select({"//conditions:default": ["d"]})})',
            "'words' of thing 'x': a select() inside a select()",
        ),
        (
            'visibility = select({"//conditions:default": []})',
            "'visibility' of thing 'x': select() cannot be used in this attribute",
        ),
    ],
)
def test_mistakes_in_a_select(tmp_path: Path, attribute: str, message: str | None) -> None:
    files = {"BUILD": SETTINGS + f'thing(name = "x", {attribute})\n'}
    if message is None:
        load_files(tmp_path, files)
        return
    (found,) = messages(tmp_path, files)
    assert found.partition(" ")[2] == message and found.startswith("BUILD:4:")


def test_two_branches_that_hold_must_agree(tmp_path: Path) -> None:
    different = 'words = select({":release": ["r"], ":fast": ["f"]})'
    same = 'words = select({":release": ["r"], ":fast": ["r"]})'
    assert select_in(tmp_path / "1", same, "release", "fast") == ("r",)
    files = {"BUILD": SETTINGS + f'thing(name = "x", {different})\n'}
    (message,) = messages(tmp_path / "2", files, configs=("release", "fast"))
    assert message.endswith("two conditions of a select() hold: ':release' and ':fast'")


def test_a_config_that_nothing_mentions_is_a_mistake(tmp_path: Path) -> None:
    files = {"BUILD": 'thing(name = "x")\n', "elsewhere/BUILD": SETTINGS, "broken/BUILD": "thing("}
    load_files(tmp_path / "1", files, "//:x", configs=("release",))
    (message,) = messages(tmp_path / "2", files, "//:x", configs=("relaese",))
    assert message == "--config relaese: no config_setting in the workspace mentions 'relaese'"


def test_a_config_setting_knows_only_configs(tmp_path: Path) -> None:
    files = {"BUILD": 'config_setting(name = "c", values = {"compilation_mode": "opt"})\n'}
    assert messages(tmp_path, files) == ["BUILD:1:38: config_setting knows only 'config', not 'compilation_mode'"]
