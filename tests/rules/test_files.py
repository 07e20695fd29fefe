"""Names for files: filegroup, alias, config_setting."""

from __future__ import annotations

from pathlib import Path

from support.analysed import action_of, analysed, files_of, paths

FILES = {"a.txt": "", "b.txt": "", "c.txt": ""}


def test_a_filegroup_has_the_files_of_its_sources_once_and_in_order(tmp_path: Path) -> None:
    build = """
filegroup(name = "inner", srcs = ["b.txt", "a.txt"])
filegroup(name = "outer", srcs = ["c.txt", ":inner", "a.txt"])
"""
    graph = analysed(tmp_path, {"BUILD": build, **FILES}, "//:outer")
    assert files_of(graph, "//:outer") == ["w/c.txt", "w/b.txt", "w/a.txt"]


def test_an_alias_stands_for_a_target_of_any_kind(tmp_path: Path) -> None:
    build = """
alias(name = "library", actual = ":real")
alias(name = "file", actual = "a.txt")
py_library(name = "real", srcs = ["m.py"])
py_test(name = "t", srcs = ["t_test.py"], deps = [":library"], data = [":file"])
"""
    graph = analysed(tmp_path, {"BUILD": build, "m.py": "", "t_test.py": "", **FILES}, "//:t", "//:library")
    (spec,) = graph.runs.values()
    assert {"w/m.py", "w/a.txt"} <= set(paths(spec.runfiles))
    assert files_of(graph, "//:library") == ["w/m.py"]


def test_locations_go_through_an_alias_as_it_is_written(tmp_path: Path) -> None:
    build = """
alias(name = "input", actual = "a.txt")
genrule(name = "g", srcs = [":input"], outs = ["o"], cmd = "cp $(location :input) $@")
"""
    assert "cp w/a.txt w/o" in action_of(analysed(tmp_path, {"BUILD": build, **FILES}, "//:g"), "Genrule").argv[-1]


def test_a_config_setting_chooses_between_attributes(tmp_path: Path) -> None:
    build = """
config_setting(name = "fast", values = {"config": "fast"})
cc_library(name = "l", srcs = ["l.cc"], copts = select({":fast": ["-O3"], "//conditions:default": ["-O1"]}))
"""
    files = {"BUILD": build, "l.cc": ""}
    assert "-O3" in action_of(analysed(tmp_path, files, "//:l", configs=["fast"]), "CppCompile").argv
    assert "-O1" in action_of(analysed(tmp_path, files, "//:l"), "CppCompile").argv
