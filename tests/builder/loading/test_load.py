"""Loading gives the targets that patterns mean, with all that they depend on, checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.analysed import write_workspace
from support.loading import SCHEMAS, load_files, messages, names, target_of

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.core.label import Label, parse_label
from rules_executorch.builder.core.target import GeneratedFile, SourceFile
from rules_executorch.builder.loading.load import load
from rules_executorch.builder.loading.workspace import find_workspace

PUBLIC = 'package(default_visibility = ["//visibility:public"])\n'


def test_dependencies_are_loaded_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "a/BUILD": 'thing(name = "a", deps = ["//b"])\n',
        "b/BUILD": PUBLIC + 'thing(name = "b", deps = ["//c:c"])\nthing(name = "other", deps = ["//gone"])\n',
        "c/BUILD": PUBLIC + 'thing(name = "c")\n',
        "d/BUILD": "this is broken(",
    }
    graph = load_files(tmp_path, files, "//a")
    assert names(graph) == ["//a:a"]
    assert set(graph.packages) == {("", "a"), ("", "b"), ("", "c")}
    assert [str(label) for label in target_of(graph, "//b").dependencies] == ["//c:c"]


def test_files_are_targets_too(tmp_path: Path) -> None:
    files = {
        "p/BUILD": 'thing(name = "x", srcs = ["f.txt"], outs = ["o.txt"])\nthing(name = "y", srcs = ["o.txt"])\n',
        "p/f.txt": "",
    }
    graph = load_files(tmp_path, files, "//p:f.txt", "//p:y")
    assert graph.roots == (Label("", "p", "f.txt"), Label("", "p", "y"))
    assert graph.target(parse_label("//p:f.txt")) == SourceFile(Label("", "p", "f.txt"), tmp_path / "p/f.txt")
    assert graph.target(parse_label("//p:o.txt")) == GeneratedFile(Label("", "p", "o.txt"), Label("", "p", "x"))


def test_wildcards_leave_out_manual_targets_and_other_workspaces(tmp_path: Path) -> None:
    files = {
        "BUILD": 'thing(name = "r")\n',
        "a/BUILD": 'thing(name = "x")\nthing(name = "m", tags = ["manual"])\n',
        "a/b/BUILD": 'thing(name = "y")\n',
        "nested/WORKSPACE": "",
        "nested/BUILD": "broken(",
        "build-out/BUILD": "broken(",
        ".hidden/BUILD": "broken(",
    }
    assert names(load_files(tmp_path, files, "//...")) == ["//:r", "//a:x", "//a/b:y"]
    assert names(load_files(tmp_path, files, "//a:all", "//:r")) == ["//a:x", "//:r"]
    assert names(load_files(tmp_path, files, "//a/...", "-//a/b/...")) == ["//a:x"]
    assert names(load_files(tmp_path, files, "//a:m")) == ["//a:m"]
    assert names(load_files(tmp_path, files, "...", package="a")) == ["//a:x", "//a/b:y"]


def test_other_repositories_are_loaded_by_their_names(tmp_path: Path) -> None:
    write_workspace(
        tmp_path / "w", {"a/BUILD": 'thing(name = "x", deps = ["@other//p:y", "@w//a:z"])\nthing(name = "z")\n'}
    )
    write_workspace(
        tmp_path / "o",
        {
            "p/BUILD": PUBLIC + 'load("//:m.bzl", "f")\nf(name = "y", deps = ["//q"])\n',
            "q/BUILD": PUBLIC + 'thing(name = "q")\n',
            "BUILD": "",
            "m.bzl": "def f(**kw): thing(**kw)\n",
        },
    )
    (tmp_path / "w/WORKSPACE").write_text('workspace(name = "w")\nlocal_repository(name = "other", path = "../o")\n')
    graph = load(find_workspace(tmp_path / "w"), ["//a:x", "@other//..."], SCHEMAS)
    assert [str(label) for label in graph.roots] == ["//a:x", "@other//p:y", "@other//q:q"]
    assert target_of(graph, "//a:x").dependencies == (Label("other", "p", "y"), Label("", "a", "z"))
    assert target_of(graph, "@other//p:y").dependencies == (Label("other", "q", "q"),)


def test_a_cycle_is_told_with_its_labels(tmp_path: Path) -> None:
    files = {
        "a/BUILD": PUBLIC + 'thing(name = "x", deps = ["//b:y"])\n',
        "b/BUILD": PUBLIC + 'thing(name = "y", deps = [":z"])\nthing(name = "z", deps = ["//a:x"])\n',
        "c/BUILD": 'thing(name = "self", deps = [":self"])\n',
    }
    assert messages(tmp_path / "1", files, "//a:x") == ["a/BUILD:2:27: dependency cycle: //a:x → //b:y → //b:z → //a:x"]
    assert messages(tmp_path / "2", files, "//c:self") == ["c/BUILD:1:30: dependency cycle: //c:self → //c:self"]


def test_a_long_chain_of_dependencies_is_loaded(tmp_path: Path) -> None:
    lines = [f'thing(name = "t{i}", deps = [":t{i + 1}"])\n' for i in range(10_000)]
    graph = load_files(tmp_path, {"BUILD": "".join(lines) + 'thing(name = "t10000")\n'}, "//:t0")
    assert len(graph.packages[("", "")].targets) == 10_001


@pytest.mark.parametrize(
    ("visibility", "visible_from"),
    [
        ("[]", set()),
        ('["//visibility:private"]', set()),
        ('["//visibility:public"]', {"b", "b/c", "bc"}),
        ('["//b:__pkg__"]', {"b"}),
        ('["//b:__subpackages__"]', {"b", "b/c"}),
        ('["//bc:__pkg__", "//b/c:__pkg__"]', {"b/c", "bc"}),
        ('["//:__subpackages__"]', {"b", "b/c", "bc"}),
        ('[":__pkg__"]', set()),
    ],
)
def test_visibility_is_kept(tmp_path: Path, visibility: str, visible_from: set[str]) -> None:
    files = {
        "a/BUILD": f'thing(name = "x", visibility = {visibility}, outs = ["o"])\nthing(name = "same", deps = [":x"])\n'
    }
    for user in ("b", "b/c", "bc"):
        files[f"{user}/BUILD"] = 'thing(name = "u", deps = ["//a:x"], srcs = ["//a:o"])\n'
    write_workspace(tmp_path, files)
    assert names(load_files(tmp_path, files, "//a:same")) == ["//a:same"]
    for user in ("b", "b/c", "bc"):
        if user in visible_from:
            load_files(tmp_path, files, f"//{user}:u")
        else:
            assert messages(tmp_path, files, f"//{user}:u") == [
                f"{user}/BUILD:1:27: //a:x is not visible from //{user}",
                f"{user}/BUILD:1:45: //a:o is not visible from //{user}",
            ]


def test_files_of_other_packages_must_be_exported(tmp_path: Path) -> None:
    files = {
        "a/BUILD": 'exports_files(["free.txt"])\nexports_files(["b_only.txt"], visibility = ["//b:__pkg__"])\n',
        "a/free.txt": "", "a/b_only.txt": "", "a/kept.txt": "",
        "b/BUILD": 'thing(name = "u", srcs = ["//a:free.txt", "//a:b_only.txt"])\nthing(name = "v", srcs = ["//a:kept.txt"])\n',
        "c/BUILD": 'thing(name = "u", srcs = ["//a:b_only.txt"])\n',
    }  # fmt: skip
    assert names(load_files(tmp_path, files, "//b:u")) == ["//b:u"]
    assert messages(tmp_path, files, "//b:v") == ["b/BUILD:2:27: //a:kept.txt is not visible from //b"]
    assert messages(tmp_path, files, "//c:u") == ["c/BUILD:1:27: //a:b_only.txt is not visible from //c"]


def test_only_tests_use_what_is_for_tests(tmp_path: Path) -> None:
    files = {
        "BUILD": (
            'thing(name = "helper", testonly = True)\nthing_test(name = "t", deps = [":helper"])\n'
            'thing(name = "also", testonly = True, deps = [":helper"])\nthing(name = "product", deps = [":helper"])\n'
        ),
        "d/BUILD": 'package(default_testonly = True)\nthing(name = "x")\n',
    }
    assert len(load_files(tmp_path, files, "//:t", "//:also", "//d:x").roots) == 3
    assert messages(tmp_path, files, "//:product") == [
        "BUILD:4:33: //:product cannot depend on //:helper, which is testonly"
    ]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('deps = ["f.txt"]', "'deps' of thing 'x' takes targets, and //p:f.txt is a file"),
        ('scripts = ["f.txt"]', "'scripts' of thing 'x' takes .py files, not f.txt"),
        ('srcs = ["g.txt"]', "there is no file or target //p:g.txt"),
        ('srcs = ["folder"]', "//p:folder is a folder, which no label can name"),
        ('srcs = ["inner/h.txt"]', "//p:inner/h.txt crosses into the package //p/inner"),
        ('srcs = ["//p/inner:gone"]', "there is no target //p/inner:gone"),
        ('srcs = ["//nested/q:x"]', "//nested/q is in another workspace: there is a file nested/WORKSPACE"),
        ('srcs = ["//folderless"]', "there is no package //folderless"),
        ('srcs = ["//p/folder:x"]', "//p/folder is not a package: there is no file p/folder/BUILD"),
        ('srcs = ["@gone//:x"]', "there is no repository '@gone'"),
    ],
)
def test_what_a_label_must_name(tmp_path: Path, attribute: str, message: str) -> None:
    files = {
        "p/BUILD": f'thing(\n    name = "x",\n    {attribute},\n)\n',
        "p/f.txt": "", "p/folder/i.txt": "", "p/inner/BUILD": "", "p/inner/h.txt": "",
        "nested/WORKSPACE": "", "nested/q/BUILD": 'thing(name = "x")',
    }  # fmt: skip
    (found,) = messages(tmp_path, files, "//p:x")
    assert found.partition(" ")[2] == message
    assert found.startswith(f"p/BUILD:3:{attribute.index('[') + 6}:")


def test_two_targets_cannot_make_one_file(tmp_path: Path) -> None:
    files = {
        "BUILD": 'thing(name = "a", outs = ["o"])\nthing(name = "b", outs = ["o"])\nthing(name = "c", outs = ["a"])\n'
    }
    assert messages(tmp_path, files) == [
        "BUILD:2:27: output 'o': //:a makes it too",
        "BUILD:3:27: output 'a': a thing has that name",
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("//gone", "there is no package //gone"),
        ("//a:gone", "there is no target //a:gone"),
        ("//gone/...", "'//gone/...' means nothing: there is no BUILD file there"),
        ("@gone//...", "there is no repository '@gone'"),
        ("//a:b:c", "'//a:b:c' is not a target pattern: 'b:c' is not a target name"),
        ("", "a target pattern cannot be empty"),
    ],
)
def test_patterns_that_mean_nothing(tmp_path: Path, pattern: str, message: str) -> None:
    (found,) = messages(tmp_path, {"a/BUILD": 'thing(name = "x")\n'}, pattern)
    assert found.rpartition("BUILD: ")[2] == message


@pytest.mark.parametrize(
    ("typed", "package", "means"),
    [
        ("//a", "", ["//a:a"]),
        ("//a:x", "b", ["//a:x"]),
        ("@w//a:x", "", ["//a:x"]),
        ("a:x", "", ["//a:x"]),
        ("a", "", ["//a:a"]),
        ("a/", "", ["//a:a"]),
        ("a/b", "", ["//a/b:b"]),
        ("a/b/f.txt", "", ["//a/b:f.txt"]),
        (":x", "a", ["//a:x"]),
        ("x", "a", ["//a:x"]),
        ("b:b", "a", ["//a/b:b"]),
        ("b", "a", ["//a/b:b"]),
        ("all", "a", ["//a:a", "//a:x"]),
        (":all", "a", ["//a:a", "//a:x"]),
        ("a/...", "", ["//a:a", "//a:x", "//a/b:b"]),
        ("...", "", ["//a:a", "//a:x", "//a/b:b"]),
        ("//a/...:all", "", ["//a:a", "//a:x", "//a/b:b"]),
    ],
)
def test_patterns_are_relative_to_where_they_are_typed(
    tmp_path: Path, typed: str, package: str, means: list[str]
) -> None:
    files = {"a/BUILD": 'thing(name = "a")\nthing(name = "x")\n', "a/b/BUILD": 'thing(name = "b")\n', "a/b/f.txt": ""}
    assert names(load_files(tmp_path, files, typed, package=package)) == means


def test_package_is_called_once_and_first(tmp_path: Path) -> None:
    files = {"BUILD": 'thing(name = "x")\npackage(default_visibilty = [])\npackage(default_visibility = ["public"])\n'}
    assert messages(tmp_path, files) == [
        "BUILD:2:1: package() comes after a target",
        "BUILD:2:9: package() has no argument 'default_visibilty'",
        "BUILD:3:1: package() is called twice",
        "BUILD:3:1: package() comes after a target",
        "BUILD:3:31: 'public' is not a visibility",
    ]


def test_build_files_are_lists_of_what_there_is(tmp_path: Path) -> None:
    files = {
        "BUILD": 'def f():\n    pass\nfor x in []:\n    pass\nif True:\n    f()\nelse:\n    f()\nthing(name = "x")\n'
    }
    assert [message.partition(":")[2][:4] for message in messages(tmp_path, files)] == ["1:1:", "3:1:", "5:1:"]


def test_diagnostics_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        load_files(tmp_path, {"b/BUILD": "x\n\ny\n", "a/BUILD": "z\n"}, "//b:all", "//a:all")
    assert [str(d.location) for d in caught.value.diagnostics] == ["a/BUILD:1:1", "b/BUILD:1:1", "b/BUILD:3:1"]
