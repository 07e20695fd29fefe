"""executorch_model and what is built on it: exports apart, lowering together, backends linked as needed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from rules_executorch.builder.analysis.analyze import ActionGraph
from rules_executorch.builder.core.diagnostics import BuildError
from support.analysed import action_of, actions_of, analysed, arguments_after, files_of, paths, write_workspace

LOAD = """load("@rules_executorch//rules:defs.bzl",
    "delegation_spec", "executorch_backend", "executorch_cc_library", "executorch_model", "executorch_test", "partitioner")
"""
BACKENDS = """
executorch_backend(name = "npu", id = "NpuBackend", module = "npu", partitioner = "npu:NpuPartitioner",
                   deps = [":npu_py"], runtime = [":npu_cc"])
py_library(name = "npu_py", srcs = ["npu.py"])
cc_library(name = "npu_cc", srcs = ["npu.cc"], alwayslink = True)
executorch_backend(name = "bare", id = "BareBackend", module = "npu", deps = [":npu_py"])
"""
MODEL = """
py_library(name = "py", srcs = ["encoder.py", "decoder.py", "common.py"], data = ["vocabulary.txt"])
executorch_model(
    name = "m",
    model = {"encode": "encoder:make", "decode": "decoder:make"},
    deps = [":py"],
    weights = "m.safetensors",
    methods = {"encode": delegation_spec(":npu", {"speed": "high"}), "decode": [partitioner("//:npu", {"x": 1}), delegation_spec("bare")]},
    constant_methods = {"version": 3},
    options = {"alignment": 32},
)
"""
FILES = {
    "BUILD": LOAD + BACKENDS + MODEL,
    **{name: "" for name in ("encoder.py", "decoder.py", "common.py", "npu.py", "npu.cc", "vocabulary.txt", "m.safetensors")},
}


def config_of(graph: ActionGraph) -> dict:
    """The configuration that the lowering reads, as the action that writes it makes it."""
    (write,) = [a for a in actions_of(graph, "Write") if paths(a.outputs) == ["w/m.lower.json"]]
    return json.loads("".join(write.argv[4:]))


def with_model(root: Path, **attributes: str) -> ActionGraph:
    """A model with other attributes."""
    given = {"model": '"encoder:make"', "methods": '{"forward": None}', "deps": '[":py"]', **attributes}
    call = "executorch_model(name = 'm', " + ", ".join(f"{key} = {value}" for key, value in given.items()) + ")\n"
    library = MODEL.partition("executorch_model")[0]
    return analysed(root, {**FILES, "BUILD": LOAD + BACKENDS + library + call}, "//:m")


def test_the_program_is_the_output_and_the_report_comes_with_it(tmp_path: Path) -> None:
    graph = analysed(tmp_path, FILES, "//:m")
    assert files_of(graph, "//:m") == ["w/m.pte"]
    assert paths(action_of(graph, "LowerModel").outputs) == ["w/m.pte", "w/m.report.json"]


def test_each_method_is_exported_by_itself_from_its_own_factory(tmp_path: Path) -> None:
    graph = analysed(tmp_path, FILES, "//:m")
    exports = {arguments_after(a.argv, "--method")[0]: a for a in actions_of(graph, "ExportMethod")}
    assert {name: arguments_after(a.argv, "--model") for name, a in exports.items()} == {
        "encode": ["encoder:make"],
        "decode": ["decoder:make"],
    }


def test_an_export_sees_neither_weights_nor_backends_but_code_data_and_names(tmp_path: Path) -> None:
    for export in actions_of(analysed(tmp_path, FILES, "//:m"), "ExportMethod"):
        seen = paths(export.inputs)
        assert {"w/encoder.py", "w/decoder.py", "w/vocabulary.txt", "w/m.checkpoint.json"} <= set(seen)
        assert "rules_executorch/lowering/__main__.py" in seen
        assert not {"w/m.safetensors", "w/npu.py"} & set(seen)


def test_an_export_leaves_out_what_its_module_does_not_import(tmp_path: Path) -> None:
    graph = analysed(tmp_path, FILES, "//:m")
    for export in actions_of(graph, "ExportMethod"):
        assert export.imports.module == arguments_after(export.argv, "--model")[0].partition(":")[0]
        # Only the model's sources are looked at: the engine is used whole.
        assert set(paths(export.imports.sources)) == {"w/encoder.py", "w/decoder.py", "w/common.py"}


def test_lowering_sees_all_methods_weights_and_backends_but_not_the_models_code(tmp_path: Path) -> None:
    seen = set(paths(action_of(analysed(tmp_path, FILES, "//:m"), "LowerModel").inputs))
    assert {"w/m.encode.edge", "w/m.decode.edge", "w/m.encode.constants.safetensors", "w/m.safetensors"} <= seen
    assert {"w/npu.py", "w/m.lower.json", "rules_executorch/lowering/__main__.py"} <= seen
    assert not {"w/encoder.py", "w/decoder.py", "w/npu.cc"} & seen


def test_the_configuration_says_how_each_method_is_lowered(tmp_path: Path) -> None:
    config = config_of(analysed(tmp_path, FILES, "//:m"))
    assert config["methods"]["encode"]["lowering"] == [
        {"kind": "delegation_spec", "backend": "@w//:npu", "compile_specs": {"speed": "high"}}
    ]
    assert config["methods"]["decode"]["lowering"] == [
        {"kind": "partitioner", "backend": "@w//:npu", "options": {"x": 1}},
        {"kind": "delegation_spec", "backend": "@w//:bare", "compile_specs": {}},
    ]
    assert config["backends"] == {
        "@w//:npu": {"id": "NpuBackend", "module": "npu", "partitioner": "npu:NpuPartitioner"},
        "@w//:bare": {"id": "BareBackend", "module": "npu", "partitioner": None},
    }
    assert (config["weights"], config["constant_methods"]) == ("w/m.safetensors", {"version": 3})
    assert config["options"] == {"alignment": 32}


def test_a_model_of_one_factory_without_weights_or_backends(tmp_path: Path) -> None:
    graph = with_model(tmp_path)
    (export,) = actions_of(graph, "ExportMethod")
    assert "--checkpoint-names" not in export.argv
    assert actions_of(graph, "CheckpointNames") == []
    assert config_of(graph)["methods"]["forward"]["lowering"] == []
    assert config_of(graph)["weights"] is None


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"methods": "{}"}, "`methods` of //:m must be a dict with at least one method"),
        ({"methods": '["forward"]'}, "`methods` of //:m must be a dict"),
        ({"methods": '{"a-b": None}'}, "has 'a-b', which is not a method's name"),
        ({"methods": '{"forward": "npu"}'}, "method 'forward' of //:m is 'npu', not how to lower it"),
        ({"methods": '{"forward": partitioner(":bare")}'}, "//:bare has no partitioner"),
        ({"model": '"encoder"'}, "`model` of //:m is 'encoder'"),
        ({"model": '{"other": "encoder:make"}'}, "or a dict with one for each of forward"),
        ({"methods": '{"forward": delegation_spec(":py")}'}, "a py_library does not provide ExecutorchBackendInfo"),
    ],
)
def test_a_model_that_is_not_well_said_is_an_error(tmp_path: Path, attributes: dict[str, str], message: str) -> None:
    with pytest.raises(BuildError) as caught:
        with_model(tmp_path, **attributes)
    assert message in str(caught.value)


def test_an_unknown_backend_is_an_error_at_the_model(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"BUILD:\d+"):
        with_model(tmp_path, methods='{"forward": delegation_spec(":npv")}')


def test_a_backend_named_through_an_alias_is_the_backend_itself(tmp_path: Path) -> None:
    files = {**FILES, "BUILD": FILES["BUILD"].replace('partitioner("//:npu"', 'partitioner(":fast"')}
    files["BUILD"] += 'alias(name = "fast", actual = ":npu")\n'
    config = config_of(analysed(tmp_path, files, "//:m"))
    assert config["methods"]["decode"]["lowering"][0]["backend"] == "@w//:npu"
    assert list(config["backends"]) == ["@w//:npu", "@w//:bare"]


def test_actions_are_the_same_from_another_workspace(tmp_path: Path) -> None:
    files = {name: text for name, text in FILES.items() if name != "BUILD"}
    public = 'package(default_visibility = ["//visibility:public"])\n'
    inside = analysed(tmp_path / "w", {"BUILD": LOAD + public + BACKENDS + MODEL, **files}, "//:m")
    write_workspace(tmp_path / "other", {"BUILD": 'alias(name = "m", actual = "@w//:m")'})
    (tmp_path / "other/WORKSPACE").write_text(
        'workspace(name = "other")\nlocal_repository(name = "w", path = "../w")\n'
    )
    from rules_executorch.builder.analysis.analyze import analyze
    from rules_executorch.builder.loading.load import load
    from rules_executorch.builder.loading.workspace import find_workspace
    from rules_executorch.rules import RULES
    from support.graphs import TOOLCHAINS

    schemas = {name: rule.schema for name, rule in RULES.items()}
    outside = analyze(load(find_workspace(tmp_path / "other"), ["//:m"], schemas), RULES, TOOLCHAINS)
    said = [[(a.mnemonic, a.argv, paths(a.inputs), paths(a.outputs)) for a in graph.actions] for graph in (inside, outside)]
    assert said[0] == said[1]


APP = """
executorch_cc_library(name = "my-model", model = ":m", runtime = [":et"])
cc_library(name = "et", hdrs = ["et.h"])
cc_binary(name = "app", srcs = ["app.cc"], deps = [":my-model"])
"""


def test_an_app_is_linked_with_what_its_models_report_says(tmp_path: Path) -> None:
    graph = analysed(tmp_path, {**FILES, "BUILD": FILES["BUILD"] + APP, "et.h": "", "app.cc": ""}, "//:app")
    check, link = action_of(graph, "CheckLink"), action_of(graph, "CppLink")
    assert "w/m.report.json" in paths(check.inputs)
    # What may be needed is there; what is linked, the response file says.
    assert "w/npu_cc.objects/npu.cc.o" in paths(link.inputs)
    assert "w/npu_cc.objects/npu.cc.o" not in link.argv
    assert "@w/app.link.rsp" in link.argv
    (write,) = [a for a in actions_of(graph, "Write") if paths(a.outputs) == ["w/app.link.json"]]
    question = json.loads("".join(write.argv[4:]))
    assert question["models"] == [{"label": "@w//:my-model", "report": "w/m.report.json"}]
    assert [(b["id"], b["libraries"]) for b in question["backends"]] == [
        ("NpuBackend", ["@w//:npu_cc"]),
        ("BareBackend", None),
    ]


def test_a_program_that_stays_a_file_is_run_with_what_its_report_says(tmp_path: Path) -> None:
    app = APP.replace('model = ":m"', 'model = ":m", embed = False')
    graph = analysed(tmp_path, {**FILES, "BUILD": FILES["BUILD"] + app, "et.h": "", "app.cc": ""}, "//:app")
    assert "w/m.report.json" in paths(action_of(graph, "CheckLink").inputs)
    assert "w/m.pte" not in paths(action_of(graph, "CppLink").inputs) and not actions_of(graph, "EmbedProgram")
    (spec,) = graph.runs.values()
    assert "w/m.pte" in paths(spec.runfiles)
    (header,) = [a for a in actions_of(graph, "Write") if paths(a.outputs) == ["w/my-model.h"]]
    assert '#define my_model_path "w/m.pte"' in "".join(header.argv[4:])


KERNELS = """
cc_library(name = "et", hdrs = ["et.h"], kernels = ["stock.txt"], kernel_libraries = [":int8"])
cc_library(name = "int8", srcs = ["int8.cc"], deps = [":tables"], kernels = ["int8.txt"], alwayslink = True)
cc_library(name = "tables", srcs = ["tables.cc"])
"""


def test_an_app_may_be_linked_with_its_runtimes_libraries_of_kernels(tmp_path: Path) -> None:
    build = FILES["BUILD"] + APP.replace('cc_library(name = "et", hdrs = ["et.h"])', KERNELS)
    sources = ("et.h", "app.cc", "int8.cc", "tables.cc", "stock.txt", "int8.txt")
    graph = analysed(tmp_path, {**FILES, "BUILD": build, **dict.fromkeys(sources, "")}, "//:app")
    check, link = action_of(graph, "CheckLink"), action_of(graph, "CppLink")
    assert {"w/stock.txt", "w/int8.txt"} <= set(paths(check.inputs))
    assert {"w/int8.objects/int8.cc.o", "w/libtables.a"} <= set(paths(link.inputs))
    assert not {"w/int8.objects/int8.cc.o", "w/libtables.a"} & set(link.argv)
    (write,) = [a for a in actions_of(graph, "Write") if paths(a.outputs) == ["w/app.link.json"]]
    question = json.loads("".join(write.argv[4:]))
    assert question["kernels"] == [{"label": "@w//:et", "kernels": ["w/stock.txt"]}]
    assert question["kernel_libraries"] == [
        {"label": "@w//:int8", "kernels": ["w/int8.txt"], "libraries": ["@w//:int8", "@w//:tables"]}
    ]


def test_a_library_of_kernels_has_to_say_which(tmp_path: Path) -> None:
    build = 'cc_library(name = "et", kernel_libraries = [":int8"])\ncc_library(name = "int8", srcs = ["int8.cc"])'
    with pytest.raises(BuildError, match="names //:int8, which does not say what kernels it registers"):
        analysed(tmp_path, {"BUILD": build, "int8.cc": ""}, "//:et")


def test_a_model_alone_needs_no_device_runtime(tmp_path: Path) -> None:
    mnemonics = {action.mnemonic for action in analysed(tmp_path, FILES, "//:m").actions}
    assert not mnemonics & {"CppCompile", "CppLinkShared", "CppLink"}


def test_the_embedded_program_is_there_aligned_and_of_its_size(tmp_path: Path) -> None:
    graph = analysed(tmp_path / "w", {**FILES, "BUILD": FILES["BUILD"] + APP, "et.h": "", "app.cc": ""}, "//:my-model")
    program = bytes(range(256)) * 5 + b"odd"
    (tmp_path / "w/m.pte").write_bytes(program)
    for action in graph.actions:
        if action.mnemonic == "EmbedProgram" or paths(action.outputs)[0] in ("w/my-model.S", "w/my-model.h"):
            command = {"cc": "c++", "shell": "bash"}[action.toolchain]
            subprocess.run([command, *action.argv], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "main.cc").write_text("""
#include "my-model.h"
#include <stdint.h>
#include <stdio.h>
int main() {
  fwrite(my_model_data, 1, my_model_size, stdout);
  return reinterpret_cast<uintptr_t>(my_model_data) % 16;
}
""")
    compile_command = ["c++", "-Werror", "-Iw", "main.cc", "w/my-model.o", "-o", "main"]
    subprocess.run(compile_command, cwd=tmp_path, check=True, timeout=60)
    completed = subprocess.run([tmp_path / "main"], capture_output=True, timeout=60)
    assert (completed.stdout, completed.returncode) == (program, 0)


def test_two_programs_of_one_name_in_an_app_are_an_error(tmp_path: Path) -> None:
    files = {
        **FILES,
        "BUILD": LOAD + 'package(default_visibility = ["//visibility:public"])' + BACKENDS + MODEL + APP.replace(
            '":my-model"]', '":my-model", "//p:my_model"]'
        ),
        "p/BUILD": LOAD + 'executorch_cc_library(name = "my_model", model = "//:m", runtime = [], visibility = ["//visibility:public"])',
        "et.h": "",
        "app.cc": "",
    }
    with pytest.raises(BuildError, match="has two programs named `my_model`"):
        analysed(tmp_path, files, "//:app")


def test_a_model_test_compares_on_the_runtime_with_the_backends_loaded(tmp_path: Path) -> None:
    rules = 'py_library(name = "in", srcs = ["inputs.py"])\n'
    rules += 'executorch_test(name = "t", model = ":m", inputs = "inputs:all", deps = [":in"], atol = "1e-3")'
    graph = analysed(tmp_path, {**FILES, "BUILD": FILES["BUILD"] + rules, "inputs.py": ""}, "//:t")
    (spec,) = graph.runs.values()
    assert (spec.toolchain, spec.also) == ("python", ("executorch",))
    assert "rules_executorch.runtime.compare_main" in spec.argv
    assert set(arguments_after(spec.argv, "--model")) == {"encode=encoder:make", "decode=decoder:make"}
    assert arguments_after(spec.argv, "--backend") == ["w/libnpu_delegate.so"]
    assert arguments_after(spec.argv, "--atol") == ["1e-3"]
    assert {"w/m.pte", "w/m.safetensors", "w/inputs.py", "w/encoder.py", "w/libnpu_delegate.so"} <= set(paths(spec.runfiles))
    assert paths(action_of(graph, "CppLinkShared").outputs) == ["w/libnpu_delegate.so"]


@pytest.mark.parametrize(("attribute", "value"), [("atol", "tiny"), ("rtol", ""), ("inputs", "inputs.all")])
def test_a_model_test_that_is_not_well_said_is_an_error(tmp_path: Path, attribute: str, value: str) -> None:
    rules = f'executorch_test(name = "t", model = ":m", {attribute} = "{value}")'
    with pytest.raises(BuildError, match=f"`{attribute}` of //:t is '{value}'"):
        analysed(tmp_path, {**FILES, "BUILD": FILES["BUILD"] + rules}, "//:t")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [('id = "", module = "npu"', "`id` of //:b is empty"), ('id = "B", module = "npu.py:x"', "`module` of //:b is 'npu.py:x'"),
     ('id = "B", module = "npu", partitioner = "npu.P"', "`partitioner` of //:b is 'npu.P'")],
)  # fmt: skip
def test_a_backend_that_is_not_well_said_is_an_error(tmp_path: Path, attributes: str, message: str) -> None:
    rules = f'executorch_backend(name = "b", {attributes}, deps = [":npu_py"])'
    with pytest.raises(BuildError) as caught:
        analysed(tmp_path, {**FILES, "BUILD": FILES["BUILD"] + rules}, "//:b")
    assert message in str(caught.value)


def test_a_recipe_sees_the_models_code_and_each_methods_factory(tmp_path: Path) -> None:
    graph = with_model(tmp_path, recipe='"common:recipe"', backends='[":npu"]', options='{"operators": ["stock", "quantized"]}')
    config = config_of(graph)
    assert config["recipe"] == "common:recipe" and config["methods"]["forward"]["model"] == "encoder:make"
    assert config["options"] == {"operators": ["stock", "quantized"]}
    assert [each["id"] for each in config["backends"].values()] == ["NpuBackend"]
    assert {"w/common.py", "w/encoder.py", "w/npu.py"} <= set(paths(action_of(graph, "LowerModel").inputs))


def test_without_a_recipe_lowering_does_not_see_the_models_code(tmp_path: Path) -> None:
    graph = with_model(tmp_path)
    assert config_of(graph)["recipe"] is None
    assert "w/encoder.py" not in paths(action_of(graph, "LowerModel").inputs)


def test_a_recipe_is_a_module_and_a_function(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="`recipe` of //:m is 'common'"):
        with_model(tmp_path, recipe='"common"')
