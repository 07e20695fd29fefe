"""py_library, py_binary, py_test: what is importable, what runs, and what it sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules_executorch.builder.core.action import RunSpec
from rules_executorch.builder.core.diagnostics import BuildError
from support.analysed import analysed, files_of, paths


def run_of(root: Path, files: dict[str, str], label: str) -> RunSpec:
    (spec,) = analysed(root, files, label).runs.values()
    return spec


def roots_of(spec: RunSpec) -> list[str]:
    return [argument.partition("=")[2] for argument in spec.argv if argument.startswith("--import-root=")]


def test_a_library_is_importable_from_its_folder_its_repository_and_the_root(tmp_path: Path) -> None:
    files = {
        "models/BUILD": 'py_library(name = "dates", srcs = ["dates.py"], visibility = ["//visibility:public"])',
        "models/dates.py": "",
        "BUILD": 'py_binary(name = "b", srcs = ["b.py"], deps = ["//models:dates"])',
        "b.py": "",
    }
    spec = run_of(tmp_path, files, "//:b")
    assert set(roots_of(spec)) == {"w/models", "w", "."}
    assert roots_of(spec)[-1] == "."
    assert set(paths(spec.runfiles)) == {"w/models/dates.py", "w/b.py"}
    assert (spec.toolchain, spec.argv[-1]) == ("python", "b")


def test_imports_name_other_folders(tmp_path: Path) -> None:
    build = 'py_library(name = "l", srcs = ["src/x/m.py"], imports = ["src/x"])\n'
    build += 'py_binary(name = "b", srcs = ["b.py"], deps = [":l"])'
    spec = run_of(tmp_path, {"p/BUILD": build, "p/src/x/m.py": "", "p/b.py": ""}, "//p:b")
    assert "w/p/src/x" in roots_of(spec)


@pytest.mark.parametrize("folder", ["../..", "/etc", "a/../../.."])
def test_imports_stay_in_the_repository(tmp_path: Path, folder: str) -> None:
    build = f'py_library(name = "l", srcs = ["m.py"], imports = ["{folder}"])'
    with pytest.raises(BuildError, match="which is outside its repository"):
        analysed(tmp_path, {"p/BUILD": build, "p/m.py": ""}, "//p:l")


def test_the_main_file_is_the_one_named_like_the_target_or_the_one_that_is_said(tmp_path: Path) -> None:
    build = 'py_binary(name = "a", srcs = ["a.py", "tool/b.py"])\n'
    build += 'py_binary(name = "c", srcs = ["a.py", "tool/b.py"], main = "tool/b.py", args = ["--in=$(location d.txt)"], data = ["d.txt"])'
    files = {"BUILD": build, "a.py": "", "tool/b.py": "", "d.txt": ""}
    assert run_of(tmp_path, files, "//:a").argv[-1] == "a"
    spec = run_of(tmp_path, files, "//:c")
    assert spec.argv[-2:] == ("tool.b", "--in=w/d.txt")
    assert "w/d.txt" in paths(spec.runfiles)


def test_a_program_that_does_not_say_its_main_file_is_an_error(tmp_path: Path) -> None:
    build = 'py_binary(name = "x", srcs = ["a.py", "b.py"])'
    with pytest.raises(BuildError, match="does not say which of its 2 sources to run"):
        analysed(tmp_path, {"BUILD": build, "a.py": "", "b.py": ""}, "//:x")


def test_pytest_runs_the_test_files_and_sees_the_others(tmp_path: Path) -> None:
    build = """
py_test(
    name = "t",
    srcs = ["conftest.py", "test_a.py", "b_test.py"],
    args = ["-k", "quick"],
    data = ["d.txt"],
    size = "small",
)
"""
    files = {"BUILD": build, "conftest.py": "", "test_a.py": "", "b_test.py": "", "d.txt": ""}
    spec = run_of(tmp_path, files, "//:t")
    assert "pytest" in spec.argv
    assert spec.argv[-4:] == ("-k", "quick", "w/test_a.py", "w/b_test.py")
    assert set(paths(spec.runfiles)) == {"w/conftest.py", "w/test_a.py", "w/b_test.py", "w/d.txt"}
    assert spec.timeout_seconds == 60


def test_a_timeout_in_seconds_goes_before_the_size(tmp_path: Path) -> None:
    build = 'py_test(name = "t", srcs = ["t.py"], size = "small", timeout = 7)'
    assert run_of(tmp_path, {"BUILD": build, "t.py": ""}, "//:t").timeout_seconds == 7


def test_a_test_without_a_test_file_is_an_error(tmp_path: Path) -> None:
    build = 'py_test(name = "t", srcs = ["a.py", "b.py"])'
    with pytest.raises(BuildError, match="//:t has no test file"):
        analysed(tmp_path, {"BUILD": build, "a.py": "", "b.py": ""}, "//:t")


def test_data_of_a_library_reaches_those_who_run_it_through_other_libraries(tmp_path: Path) -> None:
    build = """
py_library(name = "a", srcs = ["a.py"], data = ["a.txt", ":more"])
filegroup(name = "more", srcs = ["b.txt"], data = ["c.txt"])
py_library(name = "b", srcs = ["b.py"], deps = [":a"])
py_test(name = "t", srcs = ["t.py"], deps = [":b"])
"""
    files = {"BUILD": build, **{name: "" for name in ("a.py", "b.py", "t.py", "a.txt", "b.txt", "c.txt")}}
    graph = analysed(tmp_path, files, "//:t", "//:b")
    (spec,) = graph.runs.values()
    assert {"w/a.txt", "w/b.txt", "w/c.txt", "w/a.py", "w/b.py"} <= set(paths(spec.runfiles))
    assert files_of(graph, "//:b") == ["w/b.py"]


def test_a_dependency_that_is_no_python_is_an_error_at_the_target(tmp_path: Path) -> None:
    build = 'cc_library(name = "c", srcs = ["c.cc"])\n\npy_library(name = "l", deps = [":c"])'
    with pytest.raises(BuildError, match=r"BUILD:3.*//:c cannot be used in `deps` of //:l: a cc_library does not provide PyInfo"):
        analysed(tmp_path, {"BUILD": build, "c.cc": ""}, "//:l")
