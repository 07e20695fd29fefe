"""`python -m rules_executorch.runtime.compare_main`, as executorch_test runs it, on real programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from rules_executorch.lowering import to_edge_transform_and_lower
from rules_executorch.lowering.delegation.backend import DelegationSpec
from rules_executorch.runtime import compare_main
from rules_executorch.runtime.child import exit_status
from safetensors.torch import save_file, save_model
from support.reference_runtime import library

SOURCE = '''
import torch
from rules_executorch.lowering.model import Method, Model

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).tanh()

    def twice(self, x, scale):
        return {"y": self.linear(x) * scale, "x": x + 1}

LENGTH = torch.export.Dim("length", min=1, max=8)

def net():
    return Model(
        Net(),
        {
            "forward": Method((torch.ones(2, 4),), dynamic_shapes={"x": {0: LENGTH}}),
            "twice": Method((torch.ones(1, 4), torch.ones(1))),
        },
    )

def inputs(methods):
    forward = [(torch.randn(length, 4),) for length in (1, 3, 8)]
    return {"forward": forward, "twice": [(methods["forward"](forward[0][0])[:, :1].expand(1, 4), torch.ones(1))]}

def unknown_method(methods):
    return {"backward": [(torch.ones(2, 4),)]}

def no_tuples(methods):
    return {"forward": [torch.ones(2, 4)]}

def fails(methods):
    return methods["backward"]

def nothing():
    return None

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.table.weight

    def forward(self, token):
        return self.head(self.table(token))

def tied():
    return Model(Tied(), {"forward": Method((torch.tensor([3]),))})
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's source, its checkpoint, another checkpoint, and programs of the first."""
    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(SOURCE)
    namespace: dict = {}
    exec(SOURCE, namespace)  # not imported, as `net` would stay in sys.modules
    model = namespace["net"]()
    save_file(model.module.state_dict(), folder / "net.safetensors")
    save_file({"linear.weight": torch.ones(3, 4), "linear.bias": torch.ones(3)}, folder / "other.safetensors")
    save_file({"linear.weight": torch.ones(3, 4)}, folder / "incomplete.safetensors")
    save_file({"linear.weight": torch.ones(3, 5), "linear.bias": torch.ones(3)}, folder / "shape.safetensors")

    from rules_executorch.backends import reference  # noqa: F401  (registers itself)
    from rules_executorch.lowering.tracing import export_method

    programs = {name: export_method(model, name) for name in model.methods}
    plain = to_edge_transform_and_lower(programs).to_executorch()
    (folder / "net.pte").write_bytes(plain.buffer)
    delegated = to_edge_transform_and_lower(programs, partitioner=[DelegationSpec("ReferenceBackend")]).to_executorch()
    (folder / "delegated.pte").write_bytes(delegated.buffer)
    tied = namespace["tied"]()
    save_model(tied.module, folder / "tied.safetensors")
    lowered = to_edge_transform_and_lower(export_method(tied, "forward"))
    (folder / "tied.pte").write_bytes(lowered.to_executorch().buffer)
    (folder / "broken.pte").write_bytes(plain.buffer[:200])
    return folder


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


Compare = Callable[..., Result]


@pytest.fixture
def compare(folder: Path, capfd: pytest.CaptureFixture[str]) -> Compare:
    """Runs the command in `folder`, in a fork of this process, which has torch imported."""

    def run(*arguments: str) -> Result:
        def child() -> int:
            os.chdir(folder)
            sys.path.insert(0, str(folder))
            return compare_main.main(arguments)

        status = exit_status(child)
        return Result(status, *capfd.readouterr())

    return run


def test_the_command_runs_as_a_module_of_a_process_of_its_own(folder: Path) -> None:
    arguments = ["--program=net.pte", "--model=net:net", "--weights=net.safetensors"]
    command = [sys.executable, "-m", "rules_executorch.runtime.compare_main", *arguments]
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("forward: ok on 1 inputs")


def test_a_program_that_agrees_passes_and_says_how_closely(compare: Compare) -> None:
    result = compare(
        "--program=net.pte", "--model=net:net", "--weights=net.safetensors", "--inputs=net:inputs"
    )
    assert result.returncode == 0, result.stderr
    forward, twice = result.stdout.splitlines()
    assert forward.startswith("forward: ok on 3 inputs, max abs difference ")
    assert twice.startswith("twice: ok on 1 inputs, max abs difference ")


def test_a_delegated_program_runs_with_its_backend(compare: Compare) -> None:
    arguments = ["--program=delegated.pte", "--model=net:net", "--weights=net.safetensors"]
    assert compare(*arguments, f"--backend={library()}").returncode == 0
    without = compare(*arguments)
    assert without.returncode == 1
    assert "ReferenceBackend is not registered" in without.stderr
    assert "error: cannot run method forward" in without.stderr


def test_of_tied_weights_the_checkpoint_has_one_name(compare: Compare) -> None:
    result = compare("--program=tied.pte", "--model=net:tied", "--weights=tied.safetensors")
    assert result.returncode == 0, result.stderr


def test_other_weights_fail_in_every_method_with_the_place(compare: Compare) -> None:
    result = compare("--program=net.pte", "--model=net:net", "--weights=other.safetensors")
    assert result.returncode == 1
    assert "forward: FAILED on 1 of 1 inputs" in result.stdout
    assert "  on inputs 0 (float32[2, 4]): output 0: 6 of 6 values differ too much, most at [" in result.stdout
    assert "twice: FAILED" in result.stdout


def test_one_method_alone_is_compared_with_a_factory_of_its_own(compare: Compare) -> None:
    result = compare("--program=net.pte", "--model=twice=net:net", "--weights=net.safetensors")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("twice: ok")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--program=broken.pte", "--model=net:net"], "cannot"),
        (["--program=absent.pte", "--model=net:net"], "cannot load absent.pte"),
        (["--program=net.pte", "--model=absent:net"], "there is no module 'absent'"),
        (["--program=net.pte", "--model=net:absent"], "module net has no 'absent'"),
        (["--program=net.pte", "--model=net:nothing"], "net:nothing returned a NoneType"),
        (["--program=net.pte", "--model=back=net:net"], "net:net has no method 'back'; it has forward, twice"),
        (["--program=net.pte", "--model=net:net", "--weights=incomplete.safetensors"], "lacks 'linear.bias' of Net"),
        (["--program=net.pte", "--model=net:net", "--weights=shape.safetensors"], "shape.safetensors does not fit Net"),
        (["--program=net.pte", "--model=net:net", "--weights=absent.safetensors"], "absent.safetensors: cannot be"),
        (["--program=net.pte", "--model=net:net", "--inputs=net:unknown_method"], "gave inputs for 'backward'"),
        (["--program=net.pte", "--model=net:net", "--inputs=net:fails"], "net:fails fails: KeyError: 'backward'"),
        (["--program=net.pte", "--model=net:net", "--inputs=net:no_tuples"], "gave a Tensor as inputs of 'forward'"),
        (["--program=net.pte", "--model=net:net", "--backend=absent.so"], "cannot load backend absent.so"),
    ],
)
def test_what_is_wrong_with_the_question_is_one_error(compare: Compare, arguments: list[str], message: str) -> None:
    result = compare(*arguments)
    assert result.returncode == 1
    assert "error: " in result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_backend_that_kills_the_runtime_is_an_error_and_no_crash(compare: Compare, tmp_path: Path) -> None:
    source = tmp_path / "fatal.c"
    source.write_text("#include <signal.h>\n__attribute__((constructor)) static void fatal(void) { raise(SIGKILL); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "fatal.so"), str(source)], check=True)
    result = compare("--program=net.pte", "--model=net:net", f"--backend={tmp_path / 'fatal.so'}")
    assert result.returncode == 1
    assert "error: the official runtime was killed by SIGKILL on net.pte" in result.stderr
