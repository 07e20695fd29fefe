"""A model built by the command `build`: what runs again when something changes, and what a link refuses."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest
from rules_executorch import rules
from rules_executorch.builder.core.digest import digest_file
from safetensors.numpy import save_file
from support.build_command import build, write_files

BUILD_FILE = """
load("@rules_executorch//rules:defs.bzl", "executorch_model", "executorch_test")

py_library(name = "py", srcs = ["common.py", "encoder.py", "decoder.py"], deps = ["@rules_executorch//lowering"])

executorch_model(
    name = "m",
    model = {"encode": "encoder:make", "decode": "decoder:make"},
    deps = [":py"],
    weights = "m.safetensors",
    methods = {"encode": None, "decode": None},
)

executorch_test(name = "m_test", model = ":m")
"""
CODE = """
import torch
from common import Scaled
from rules_executorch.lowering.model import Method, Model

class Part(Scaled):
    def {method}(self, x):
        return torch.{function}(x * self.scale)

def make():
    return Model(Part(), {{"{method}": Method((torch.zeros(2, 3),))}})
"""
COMMON = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
"""
FILES = {
    "BUILD": BUILD_FILE,
    "common.py": COMMON,
    "encoder.py": CODE.format(method="encode", function="tanh"),
    "decoder.py": CODE.format(method="decode", function="relu"),
}


PRODUCT = ("backends", "builder", "lowering", "rules", "runtime")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the rules and the engine, so that nobody edits them meanwhile, and an action cache."""
    root = tmp_path_factory.mktemp("shared")
    for folder in PRODUCT:
        ignored = shutil.ignore_patterns("__pycache__", "build-out")
        shutil.copytree(Path(rules.__file__).parents[1] / folder, root / "rules_executorch" / folder, ignore=ignored)
    (root / "rules_executorch/WORKSPACE").write_text('workspace(name = "rules_executorch")\n')
    return root


@dataclass(frozen=True)
class Workspace:
    """A workspace in which //:m is built, and the action cache that it shares with others."""

    root: Path
    cache: Path

    def build(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return build(self.root, *arguments, cache=self.cache)

    def ran(self, *arguments: str) -> Counter[str]:
        """The mnemonics of the actions that a build runs, which must succeed."""
        result = self.build(*arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        lines = (result.stdout + result.stderr).splitlines()
        return Counter(line.split()[1] for line in lines if line.startswith("["))

    def save_weights(self, value: float, name: str = "scale") -> None:
        save_file({name: numpy.full((3,), value, numpy.float32)}, self.root / "m.safetensors")

    def export_digests(self) -> dict[str, str]:
        outputs = self.root / "build-out"
        return {method: digest_file(outputs / f"m.{method}.edge").hash for method in ("encode", "decode")}


@pytest.fixture
def built(shared: Path, tmp_path: Path) -> Workspace:
    workspace = f'workspace(name = "w")\nlocal_repository(name = "rules_executorch", path = "{shared}/rules_executorch")\n'
    built = Workspace(write_files(tmp_path / "w", {**FILES, "WORKSPACE": workspace}), shared / "cache")
    built.save_weights(2.0)
    built.ran("//:m")
    return built


def test_a_built_model_agrees_with_pytorch_on_the_official_runtime(built: Workspace) -> None:
    result = built.build("test", "//:m_test")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed, 0 failed" in result.stdout


def test_another_workspace_builds_nothing_again(built: Workspace, tmp_path: Path) -> None:
    other = Workspace(shutil.copytree(built.root, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("build-out")), built.cache)
    assert other.ran("//:m") == Counter()
    name = "build-out/m.pte"
    assert (other.root / name).read_bytes() == (built.root / name).read_bytes()


def test_a_change_in_one_methods_code_exports_that_method_and_lowers(built: Workspace) -> None:
    before = built.export_digests()
    (built.root / "decoder.py").write_text(CODE.format(method="decode", function="sigmoid"))
    assert built.ran("//:m") == Counter({"ExportMethod": 1, "LowerModel": 1})
    after = built.export_digests()
    assert after["encode"] == before["encode"] and after["decode"] != before["decode"]


def test_a_change_in_common_code_exports_both(built: Workspace) -> None:
    (built.root / "common.py").write_text(COMMON.replace("ones(3)", "zeros(3)"))
    assert built.ran("//:m")["ExportMethod"] == 2


def test_a_retrained_checkpoint_is_lowered_and_not_exported(built: Workspace) -> None:
    built.save_weights(3.0)
    assert built.ran("//:m") == Counter({"CheckpointNames": 1, "LowerModel": 1})


def test_a_checkpoint_with_other_names_fails_and_says_which(built: Workspace) -> None:
    built.save_weights(2.0, name="scales")
    result = built.build("//:m")
    assert result.returncode == 1
    assert "'scale' is missing" in result.stdout + result.stderr


APPS = """
load("@rules_executorch//rules:defs.bzl", "executorch_cc_library")

py_library(name = "int8_py", srcs = ["int8.py"], deps = ["@rules_executorch//lowering"])
executorch_model(name = "int8", model = "int8:make", deps = [":int8_py"], methods = {"forward": None},
                 options = {"operators": ["stock", "quantized"]})
[executorch_cc_library(name = name + "_program", model = ":" + name) for name in ("m", "int8")]
cc_library(name = "main", srcs = ["main.cc"], alwayslink = True, deps = ["@rules_executorch//runtime:executorch"])
[cc_binary(name = name + "_app", deps = [":main", ":%s_program" % name]) for name in ("m", "int8")]

# A program that reads its model from a file.
executorch_cc_library(name = "int8_file", model = ":int8", embed = False)
cc_test(name = "file_app", srcs = ["file.cc"], deps = [":int8_file"])

# A device's runtime that has few kernels.
cc_library(name = "few", kernels = ["few.txt"])
executorch_cc_library(name = "few_program", model = ":int8", runtime = [":few"])
cc_binary(name = "few_app", deps = [":few_program"])
"""
INT8 = """
import torch
import torch.ao.quantization.fx._decomposed
from rules_executorch.lowering.model import Method, Model

class Rounded(torch.nn.Module):
    def forward(self, x):
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8)

def make():
    return Model(Rounded(), {"forward": Method((torch.zeros(2, 3),))})
"""
MAIN = """
#include <executorch/runtime/kernel/operator_registry.h>
#include <cstdio>

int main() {
  std::puts(executorch::runtime::registry_has_op_function("quantized_decomposed::quantize_per_tensor.out") ? "yes" : "no");
}
"""
FILE = """
#include "int8_file.h"
#include <executorch/runtime/kernel/operator_registry.h>
#include <fstream>
#include <string>

int main() {
  std::string magic(8, 0);
  std::ifstream(int8_file_path, std::ios::binary).read(magic.data(), magic.size());
  return magic.substr(4, 2) == "ET" &&
    executorch::runtime::registry_has_op_function("quantized_decomposed::quantize_per_tensor.out") ? 0 : 1;
}
"""


def test_an_app_has_those_libraries_of_kernels_that_its_model_calls(built: Workspace) -> None:
    text = FILES["BUILD"] + APPS
    write_files(built.root, {"BUILD": text, "int8.py": INT8, "main.cc": MAIN, "few.txt": "aten::add.out\n"})
    built.ran("//:m_app", "//:int8_app")
    answers = [subprocess.run([built.root / f"build-out/{n}_app"], capture_output=True, text=True) for n in ("m", "int8")]
    assert [answer.stdout for answer in answers] == ["no\n", "yes\n"], answers
    refused = built.build("//:few_app")
    assert refused.returncode == 1
    message = "@w//:few_program calls kernel quantized_decomposed::quantize_per_tensor.out, which no library registers"
    assert message in refused.stdout + refused.stderr
    assert "note: libraries that say which kernels they register: @w//:few (1)" in refused.stdout + refused.stderr


def test_a_program_that_stays_a_file_is_there_at_run_time_and_what_it_needs_is_linked(built: Workspace) -> None:
    write_files(built.root, {"BUILD": FILES["BUILD"] + APPS, "int8.py": INT8, "main.cc": MAIN, "few.txt": "", "file.cc": FILE})
    result = built.build("test", "//:file_app")
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_module_that_is_not_declared_cannot_be_imported(built: Workspace) -> None:
    (built.root / "undeclared.py").write_text("")
    (built.root / "encoder.py").write_text("import undeclared\n" + FILES["encoder.py"])
    result = built.build("//:m")
    assert result.returncode == 1
    assert "No module named 'undeclared'" in result.stdout + result.stderr
    assert "`deps`" in result.stdout + result.stderr
