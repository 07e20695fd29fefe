"""What is linked follows from what the models' programs need; what cannot be is told by name."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rules_executorch.rules.tools.check_link import (
    LinkError,
    main,
    needed_libraries,
    response_file,
    toolchain_arguments,
)

MODEL = {"label": "@w//m:program", "report": "m.report.json"}
NPU = {"label": "@w//npu:npu", "id": "NpuBackend", "libraries": ["@w//npu:runtime", "@w//npu:driver"]}
DSP = {"label": "@w//dsp:dsp", "id": "DspBackend", "libraries": ["@w//dsp:runtime"]}
LIBRARIES = [
    {"label": "@w//npu:runtime", "arguments": ["npu.o"], "toolchain_libraries": [], "kernels": []},
    {"label": "@w//dsp:runtime", "arguments": ["dsp.o"], "toolchain_libraries": [], "kernels": []},
    {"label": "@w//npu:driver", "arguments": ["libdriver.a", "-ldriver"], "toolchain_libraries": [], "kernels": []},
    {"label": "@w//k:int8", "arguments": ["int8.o"], "toolchain_libraries": [], "kernels": ["int8.txt"]},
    {"label": "@w//k:tables", "arguments": ["tables.o"], "toolchain_libraries": [], "kernels": []},
    {"label": "@w//k:llm", "arguments": ["llm.o"], "toolchain_libraries": [], "kernels": ["llm.txt"]},
]
KERNELS = [
    {"label": "@w//k:int8", "kernels": ["int8.txt"], "libraries": ["@w//k:int8", "@w//k:tables"]},
    {"label": "@w//k:llm", "kernels": ["llm.txt"], "libraries": ["@w//k:llm"]},
]


def arguments(delegates: list[str], backends: list[dict[str, Any]]) -> list[str]:
    question = {"models": [MODEL], "backends": backends, "libraries": LIBRARIES, "kernels": [], "kernel_libraries": []}
    libraries = needed_libraries(question, {"m.report.json": {"delegates": delegates, "operators": ["aten::add.out"]}})
    return [argument for library in libraries for argument in library["arguments"]]


def test_the_libraries_of_needed_delegates_are_linked_in_order_and_no_others() -> None:
    assert arguments(["NpuBackend"], [NPU, DSP]) == ["npu.o", "libdriver.a", "-ldriver"]
    assert arguments(["DspBackend"], [NPU, DSP]) == ["dsp.o"]
    assert arguments([], [NPU, DSP]) == []


def test_a_delegate_that_no_backend_provides_is_named() -> None:
    with pytest.raises(LinkError, match="@w//m:program needs delegate OtherBackend, which no backend") as caught:
        arguments(["OtherBackend"], [NPU])
    assert "NpuBackend (@w//npu:npu)" in str(caught.value)


def test_a_delegate_without_a_library_is_named_with_its_backend() -> None:
    with pytest.raises(LinkError, match="@w//npu:npu names no library that carries it"):
        arguments(["NpuBackend"], [{**NPU, "libraries": None}])


def test_a_delegate_registered_by_two_libraries_is_an_error_that_names_both() -> None:
    fork = {**NPU, "label": "@w//fork:npu", "libraries": ["@w//fork:runtime"]}
    with pytest.raises(LinkError, match="registered by the libraries of both @w//npu:npu and @w//fork:npu"):
        arguments(["NpuBackend"], [NPU, fork])
    assert arguments(["DspBackend"], [NPU, fork, DSP]) == ["dsp.o"]


def test_two_backends_on_the_same_libraries_are_fine() -> None:
    assert arguments(["DspBackend"], [DSP, {**DSP, "label": "@w//dsp:tuned"}]) == ["dsp.o"]


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stock.txt").write_text("# the runtime's\naten::add.out\naten::mul.out\n")
    Path("int8.txt").write_text("q::add.out\naten::mul.out\n")
    Path("llm.txt").write_text("llm::sdpa.out\n")


def kernel_arguments(operators: list[str], *, known: bool = True) -> list[str]:
    runtime = [{"label": "@et//:runtime", "kernels": ["stock.txt"]}] if known else []
    question = {"models": [MODEL], "backends": [], "libraries": LIBRARIES, "kernels": runtime}
    question["kernel_libraries"] = KERNELS if known else []
    libraries = needed_libraries(question, {"m.report.json": {"delegates": [], "operators": operators}})
    return [argument for library in libraries for argument in library["arguments"]]


@pytest.mark.usefixtures("lists")
def test_libraries_of_kernels_are_linked_if_a_program_calls_one_that_the_runtime_lacks() -> None:
    assert kernel_arguments(["aten::add.out", "aten::mul.out"]) == []
    assert kernel_arguments(["aten::add.out", "q::add.out"]) == ["int8.o", "tables.o"]
    assert kernel_arguments(["llm::sdpa.out", "q::add.out"]) == ["int8.o", "tables.o", "llm.o"]


@pytest.mark.usefixtures("lists")
def test_a_kernel_that_no_library_registers_is_named_with_those_that_there_are() -> None:
    with pytest.raises(LinkError, match="@w//m:program calls kernel q::sub.out, which no library registers") as caught:
        kernel_arguments(["q::add.out", "q::sub.out"])
    assert "@et//:runtime (2), @w//k:int8 (2), @w//k:llm (1)" in str(caught.value)


@pytest.mark.usefixtures("lists")
def test_nothing_is_said_of_kernels_where_no_library_says_what_it_has() -> None:
    assert kernel_arguments(["q::sub.out"], known=False) == []


def test_kernels_that_a_linked_delegate_brings_are_there(lists: None) -> None:
    brings = [{**LIBRARIES[1], "kernels": ["int8.txt"]}]
    question = {"models": [MODEL], "backends": [DSP], "libraries": brings, "kernel_libraries": []}
    question["kernels"] = [{"label": "@et//:runtime", "kernels": ["stock.txt"]}]
    report = {"delegates": ["DspBackend"], "operators": ["q::add.out"]}
    assert needed_libraries(question, {"m.report.json": report}) == brings
    with pytest.raises(LinkError, match="q::add.out"):
        needed_libraries(question, {"m.report.json": {**report, "delegates": []}})


def test_a_response_file_gives_a_real_compiler_its_arguments_unchanged(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text('#include <stdio.h>\nint main(void) { puts(TEXT); }\n')
    text = "a b \\ $ORIGIN ' end"
    literal = text.replace("\\", "\\\\")
    options = [f'-DTEXT="{literal}"', "-o", "out file", "x.c"]
    (tmp_path / "x.rsp").write_text(response_file(options))
    subprocess.run(["cc", "@x.rsp"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "out file"], capture_output=True, text=True).stdout == text + "\n"


def test_the_program_reads_reports_and_fails_with_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    question = {"models": [MODEL], "backends": [DSP], "libraries": LIBRARIES, "program": "w/a/app"}
    question |= {"toolchain_libraries": [], "kernels": [], "kernel_libraries": []}
    Path("q.json").write_text(json.dumps(question))
    Path("m.report.json").write_text(json.dumps({"delegates": ["DspBackend"], "operators": []}))
    assert main("q.json", "out.rsp") == 0
    assert Path("out.rsp").read_text() == '"dsp.o"\n'
    Path("m.report.json").write_text(json.dumps({"delegates": ["NpuBackend"], "operators": []}))
    assert main("q.json", "none.rsp") == 1
    assert not Path("none.rsp").exists()
    assert capsys.readouterr().err.startswith("error: @w//m:program needs delegate NpuBackend")


def test_a_toolchains_library_is_found_by_wildcard_and_by_the_program_in_both_layouts(tmp_path: Path) -> None:
    tree = tmp_path / ".toolchain" / "sdk" / "lib"
    tree.mkdir(parents=True)
    (tmp_path / "lib.c").write_text("int answer(void) { return 42; }\n")
    (tmp_path / "main.c").write_text("int answer(void);\nint main(void) { return answer(); }\n")
    library = tree / "libsdk.3.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "lib.c"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "w" / "a").mkdir(parents=True)
    options = toolchain_arguments(["sdk/lib/libsdk.*.so"], str(tmp_path / ".toolchain"), "w/a/app")
    subprocess.run(["cc", "main.c", "-o", "w/a/app", *options], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "w/a/app"], cwd="/").returncode == 42
    elsewhere = tmp_path / "out"
    elsewhere.mkdir()
    (tmp_path / "w/a/app").rename(elsewhere / "app")
    (elsewhere / "app.runfiles").mkdir()
    (tmp_path / ".toolchain").rename(elsewhere / "app.runfiles" / ".toolchain")
    assert subprocess.run([elsewhere / "app"], cwd="/").returncode == 42


def test_a_wildcard_means_all_that_match_it_in_order_and_may_be_none(tmp_path: Path) -> None:
    (tmp_path / "sdk").mkdir()
    for name in ("libb.so", "liba.so", "other.txt"):
        (tmp_path / "sdk" / name).touch()
    options = toolchain_arguments(["sdk/lib*.so"], str(tmp_path), "w/app")
    assert [option for option in options if option.startswith("-l")] == ["-l:liba.so", "-l:libb.so"]
    assert toolchain_arguments(["sdk/none*.so", "absent/*.so"], str(tmp_path), "w/app") == []


def test_a_library_that_is_not_there_is_an_error_that_lists_what_is(tmp_path: Path) -> None:
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "libsdk2.so").touch()
    with pytest.raises(LinkError, match="there is no toolchain library sdk/libsdk.so") as caught:
        toolchain_arguments(["sdk/libsdk.so"], str(tmp_path), "w/app")
    assert "libsdk2.so" in str(caught.value)
