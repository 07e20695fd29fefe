"""cc_library, cc_binary, cc_test: one object per source, headers as inputs, libraries in the linker's order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from rules_executorch.builder.analysis.analyze import ActionGraph
from rules_executorch.builder.core.diagnostics import BuildError
from support.analysed import action_of, actions_of, analysed, arguments_after, files_of, paths

LIBRARY = """
cc_library(name = "base", srcs = ["base.cc", "private.h"], hdrs = ["base.h"], defines = ["BASE=1"], linkopts = ["-lm"])
cc_library(name = "middle", srcs = ["one.cc", "two.cc"], hdrs = ["middle.h"], deps = [":base"], copts = ["-DOWN"])
cc_binary(name = "app", srcs = ["app.cc"], deps = [":middle"], data = ["table.txt"])
"""
FILES = {
    "BUILD": LIBRARY,
    "base.h": "int base();\n",
    "private.h": "",
    "base.cc": '#include "base.h"\n#include "private.h"\nint base() { return BASE; }\n',
    "middle.h": "int one();\nint two();\n",
    "one.cc": '#include "middle.h"\n#include "base.h"\nint one() { return base() + two(); }\n',
    "two.cc": '#include "middle.h"\nint two() { return 40; }\n',
    "app.cc": '#include "middle.h"\n#include "base.h"\nint main() { return one() + BASE; }\n',
    "table.txt": "",
}


def build(root: Path, graph: ActionGraph) -> None:
    """Run the C++ actions with this machine's compiler, sources where they are."""
    for action in graph.actions:
        for output in action.outputs:
            (root / output.exec_path).parent.mkdir(parents=True, exist_ok=True)
        command = {"cc": ["c++"], "ar": ["ar"], "shell": ["bash"]}[action.toolchain]
        environment = {"PATH": "/usr/bin:/bin", **action.environment}
        subprocess.run([*command, *action.argv], cwd=root, check=True, timeout=60, env=environment)


def test_each_source_is_compiled_by_itself_and_sees_headers_but_no_other_source(tmp_path: Path) -> None:
    graph = analysed(tmp_path, FILES, "//:app")
    by_source = {paths(action.inputs)[0]: action for action in actions_of(graph, "CppCompile")}
    assert set(by_source) == {"w/base.cc", "w/one.cc", "w/two.cc", "w/app.cc"}
    assert set(paths(by_source["w/one.cc"].inputs)) == {"w/one.cc", "w/middle.h", "w/base.h"}
    assert set(paths(by_source["w/base.cc"].inputs)) == {"w/base.cc", "w/base.h", "w/private.h"}


def test_defines_reach_dependents_and_copts_do_not(tmp_path: Path) -> None:
    graph = analysed(tmp_path, FILES, "//:app")
    argv = {paths(action.inputs)[0]: action.argv for action in actions_of(graph, "CppCompile")}
    assert all("-DBASE=1" in each for each in argv.values())
    assert [source for source, each in argv.items() if "-DOWN" in each] == ["w/one.cc", "w/two.cc"]


def test_the_program_runs_and_its_libraries_stand_before_those_they_need(tmp_path: Path) -> None:
    graph = analysed(tmp_path / "w", FILES, "//:app")
    link = action_of(graph, "CppLink")
    archives = [argument for argument in link.argv if argument.endswith(".a")]
    assert archives == ["w/libmiddle.a", "w/libbase.a"]
    assert link.argv.index("-lm") > link.argv.index("w/libbase.a")
    build(tmp_path, graph)
    assert subprocess.run([tmp_path / "w/app"], timeout=60).returncode == 42


def test_objects_are_the_same_from_every_folder_even_with_debug_information(tmp_path: Path) -> None:
    files = {**FILES, "BUILD": LIBRARY.replace('copts = ["-DOWN"]', 'copts = ["-g"]')}
    contents = []
    for place in ("here", "a/longer/place"):
        graph = analysed(tmp_path / place / "w", files, "//:middle")
        build(tmp_path / place, graph)
        contents.append((tmp_path / place / "w/libmiddle.a").read_bytes())
    assert contents[0] == contents[1]
    assert str(tmp_path).encode() not in contents[0]


def test_what_registers_itself_is_linked_though_nothing_refers_to_it(tmp_path: Path) -> None:
    files = {
        "BUILD": """
cc_library(name = "plugin", srcs = ["plugin.cc"], deps = [":registry"], alwayslink = True)
cc_library(name = "registry", srcs = ["registry.cc"], hdrs = ["registry.h"])
cc_binary(name = "app", srcs = ["app.cc"], deps = [":plugin", ":registry"])
""",
        "registry.h": "int& registered();\n",
        "registry.cc": '#include "registry.h"\nint& registered() { static int n; return n; }\n',
        "plugin.cc": '#include "registry.h"\nstatic int now = registered() = 7;\n',
        "app.cc": '#include "registry.h"\nint main() { return registered(); }\n',
    }
    build(tmp_path, analysed(tmp_path / "w", files, "//:app"))
    assert subprocess.run([tmp_path / "w/app"], timeout=60).returncode == 7


def test_a_prebuilt_archive_is_linked_whole_where_it_registers_itself(tmp_path: Path) -> None:
    build_file = 'cc_library(name = "sdk", srcs = ["libsdk.a"], hdrs = ["sdk.h"], alwayslink = True)\n'
    build_file += 'cc_binary(name = "app", srcs = ["app.cc"], deps = [":sdk"])'
    files = {"BUILD": build_file, "libsdk.a": "", "sdk.h": "", "app.cc": ""}
    argv = action_of(analysed(tmp_path, files, "//:app"), "CppLink").argv
    position = argv.index("w/libsdk.a")
    assert (argv[position - 1], argv[position + 1]) == ("-Wl,--whole-archive", "-Wl,--no-whole-archive")


def test_includes_are_folders_of_the_package(tmp_path: Path) -> None:
    files = {
        "p/BUILD": 'cc_library(name = "l", hdrs = ["include/l.h"], includes = ["include"], visibility = ["//visibility:public"])',
        "p/include/l.h": "",
        "BUILD": 'cc_library(name = "user", srcs = ["u.cc"], deps = ["//p:l"])',
        "u.cc": "#include <l.h>\n",
    }
    argv = action_of(analysed(tmp_path, files, "//:user"), "CppCompile").argv
    assert set(arguments_after(argv, "-I")) == {"w/p/include", "w"}


def test_includes_stay_in_the_repository(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="which is outside its repository"):
        analysed(tmp_path, {"BUILD": 'cc_library(name = "l", includes = [".."])'}, "//:l")


def test_toolchains_and_their_headers_reach_dependents(tmp_path: Path) -> None:
    build_file = """
cc_library(name = "sdk", toolchains = ["executorch"], toolchain_includes = ["executorch/include"],
           toolchain_libraries = ["executorch/lib*.so"])
cc_binary(name = "app", srcs = ["app.cc"], deps = [":sdk"])
"""
    graph = analysed(tmp_path, {"BUILD": build_file, "app.cc": ""}, "//:app")
    compile_action, link = action_of(graph, "CppCompile"), action_of(graph, "CppLink")
    assert "-isystem.toolchain/executorch/include" in compile_action.argv
    check = action_of(graph, "CheckLink")
    assert compile_action.also == link.also == check.also == ("executorch",)
    assert "@w/app.link.rsp" in link.argv and "w/app.link.rsp" in paths(link.inputs)
    (spec,) = graph.runs.values()
    assert spec.also == ("executorch",)


def test_a_program_without_libraries_of_toolchains_is_linked_without_asking(tmp_path: Path) -> None:
    assert actions_of(analysed(tmp_path, FILES, "//:app"), "CheckLink") == []


def test_sources_of_one_name_in_two_folders_have_objects_of_their_own(tmp_path: Path) -> None:
    files = {"BUILD": 'cc_library(name = "l", srcs = ["a/x.cc", "b/x.cc", "b/x.c"])', "a/x.cc": "", "b/x.cc": "", "b/x.c": ""}
    graph = analysed(tmp_path, files, "//:l")
    assert len({action.outputs for action in actions_of(graph, "CppCompile")}) == 3
    assert files_of(graph, "//:l") == ["w/libl.a"]


def test_a_generated_source_is_compiled_and_another_file_refused(tmp_path: Path) -> None:
    rules = 'genrule(name = "g", outs = ["g.cc"], cmd = "touch $@")\ncc_library(name = "l", srcs = [":g"])'
    graph = analysed(tmp_path, {"BUILD": rules}, "//:l")
    assert paths(action_of(graph, "CppCompile").inputs) == ["w/g.cc"]
    with pytest.raises(BuildError, match="has w/g.txt, which is no source, header or archive"):
        analysed(tmp_path, {"BUILD": rules.replace("g.cc", "g.txt")}, "//:l")


def test_a_test_runs_its_program_with_its_data(tmp_path: Path) -> None:
    rules = 'cc_test(name = "t", srcs = ["t.cc"], data = ["d.txt"], args = ["$(location d.txt)"], size = "large")'
    graph = analysed(tmp_path, {"BUILD": rules, "t.cc": "", "d.txt": ""}, "//:t")
    (spec,) = graph.runs.values()
    assert (spec.toolchain, spec.argv, spec.timeout_seconds) == ("", ("w/t", "w/d.txt"), 900)
    assert paths(spec.runfiles) == ["w/t", "w/d.txt"]
