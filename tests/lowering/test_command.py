"""The command line: export, lower, inspect and operators, as the builder and people call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from rules_executorch.lowering.command.main import main
from safetensors.torch import load_file, save_file

from support.children import python_path
from support.official_runtime import run_methods

MODEL = """
import torch
from torch import nn
from rules_executorch.lowering import Method, Model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.out = nn.Linear(8, 10, bias=False)
        self.out.weight = self.embedding.weight
        self.register_buffer("position", torch.arange(8.0), persistent=False)

    def encode(self, ids):
        return self.embedding(ids) + self.position

    def decode(self, hidden):
        return self.out(hidden)


def net():
    n = torch.export.Dim("n", min=1, max=16)
    return Model(Net(), {
        "encode": Method((torch.zeros(3, dtype=torch.long),), dynamic_shapes=({0: n},)),
        "decode": Method((torch.randn(4, 8),)),
    })


def plain():
    torch.manual_seed(3)
    return Model(nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4)).eval(), {
        "forward": Method((torch.randn(2, 128),), calibration_inputs=[(torch.randn(2, 128),) for _ in range(4)]),
    })


def relu_to_tanh(graph_module):
    for node in graph_module.graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.tanh.default


def tanh_recipe():
    from rules_executorch.lowering import ExecutorchBackendConfig, ExportRecipe, LoweringRecipe, MemoryPlanningPass
    return ExportRecipe(
        lowering_recipe=LoweringRecipe(edge_transform_passes=[lambda method, program: [relu_to_tanh]]),
        executorch_backend_config=ExecutorchBackendConfig(
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alignment=64)
        ),
    )


def int8_recipe():
    from torchao.quantization import Int8WeightOnlyConfig
    from rules_executorch.lowering import AOQuantizationConfig, ExportRecipe, QuantizationRecipe
    configs = [AOQuantizationConfig(Int8WeightOnlyConfig())]
    return ExportRecipe(quantization_recipe=QuantizationRecipe(ao_quantization_configs=configs))


def broken():
    return 1 / 0


def module():
    return Net()
"""

BACKEND = """
from rules_executorch.lowering import BackendDetails, Partitioner, PartitionResult, PreprocessResult, register_backend


class Nothing(Partitioner):
    def __init__(self, word="none"):
        self.word = word

    def partition(self, program):
        return PartitionResult(program, {})


class Compiler(BackendDetails):
    @staticmethod
    def preprocess(program, compile_specs):
        return PreprocessResult(b"|".join(spec.key.encode() + b"=" + spec.value for spec in compile_specs))


register_backend("TestBackend", Compiler)
"""


Done = tuple[int, str, str]
"""Exit status, what was printed, and the errors."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a model and a backend, which is the working directory and an import root."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "fake_backend.py").write_text(BACKEND)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("model", "fake_backend"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command here: importing torch anew for each would take most of the time."""

    def run_here(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        return (status, *capsys.readouterr())

    return run_here


def run_apart(folder: Path, *arguments: str, seed: str = "0") -> Done:
    """Runs a command as the builder does."""
    done = subprocess.run(
        [sys.executable, "-m", "rules_executorch.lowering", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(folder), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def export(method: str, *more: str, model: str = "model:net") -> tuple[str, ...]:
    files = ("--graph", f"{method}.edge", "--constants", f"{method}.constants")
    return ("export", "--model", model, "--method", method, *files, *more)


def config(**changes: object) -> str:
    methods = {
        name: {"graph": f"{name}.edge", "constants": f"{name}.constants", "lowering": []}
        for name in ("encode", "decode")
    }
    return json.dumps({"methods": methods, "backends": {}, "weights": None, "constant_methods": {}, **changes})


def lower(text: str, out: str = "out.pte") -> tuple[str, ...]:
    return ("lower", "--config", text, "--out", out, "--report", "report.json")


def succeeds(done: Done) -> str:
    status, output, errors = done
    assert status == 0, errors
    return output


def fails(done: Done) -> str:
    status, _, errors = done
    assert status == 1
    assert errors.startswith("error: ") and "Traceback" not in errors
    return errors


def test_a_model_with_a_checkpoint_becomes_a_program(folder: Path, run: Callable[..., Done]):
    torch.manual_seed(1)
    weight = torch.randn(10, 8)
    save_file({"out.weight": weight}, folder / "weights.safetensors")
    (folder / "names.json").write_text(json.dumps({"out.weight": {"dtype": "F32", "shape": [10, 8]}}))
    for method in ("encode", "decode"):
        succeeds(run(*export(method, "--checkpoint-names", "names.json")))
    assert list(load_file(folder / "encode.constants")) == ["position"]
    text = config(weights="weights.safetensors", constant_methods={"limit": 16})
    succeeds(run(*lower(text)))
    succeeds(run_apart(folder, *lower(text, out="again.pte"), seed="7"))
    assert (folder / "again.pte").read_bytes() == (folder / "out.pte").read_bytes()

    ids, hidden = torch.tensor([1, 5]), torch.randn(4, 8)
    (encoded,), (decoded,), (limit,) = run_methods(
        folder / "out.pte", [("encode", [ids]), ("decode", [hidden]), ("limit", [])]
    )
    torch.testing.assert_close(encoded, weight[ids] + torch.arange(8.0))
    torch.testing.assert_close(decoded, hidden @ weight.T)
    assert limit == 16

    report = json.loads((folder / "report.json").read_text())
    assert report["delegates"] == []
    assert report["operators"] == ["aten::add.out", "aten::embedding.out", "aten::linear.out"]
    assert set(report["methods"]) == {"encode", "decode", "limit"}
    assert report["file_bytes"] == (folder / "out.pte").stat().st_size
    memory = report["methods"]["encode"]["memory"]
    assert 0 < memory["lower_bound"] <= memory["planned"] == report["methods"]["encode"]["planned_bytes"][0]

    account = json.loads(succeeds(run("inspect", "out.pte", "--json")))
    assert [method["name"] for method in account["methods"]] == ["decode", "encode", "limit"]
    assert "encode" in succeeds(run("inspect", "out.pte"))


def test_a_pt2_archive_is_a_model(folder: Path, run: Callable[..., Done]):
    linear = torch.nn.Linear(2, 3)
    torch.export.save(torch.export.export(linear, (torch.zeros(1, 2),)), folder / "linear.pt2")
    succeeds(run(*export("forward", model="linear.pt2")))
    method = {"graph": "forward.edge", "constants": "forward.constants", "lowering": None}
    succeeds(run(*lower(config(methods={"forward": method}))))
    x = torch.randn(1, 2)
    torch.testing.assert_close(run_methods(folder / "out.pte", [("forward", [x])])[0][0], linear(x))


def test_methods_go_to_their_backends(folder: Path, run: Callable[..., Done]):
    for method in ("encode", "decode"):
        succeeds(run(*export(method)))
    data = json.loads(config())
    label = "//backends:fake"
    data["backends"] = {label: {"id": "TestBackend", "module": "fake_backend", "partitioner": "fake_backend:Nothing"}}
    spec = {"kind": "delegation_spec", "backend": label, "compile_specs": {"speed": "fast"}}
    data["methods"]["encode"]["lowering"] = [spec]
    data["methods"]["decode"]["lowering"] = [{"kind": "partitioner", "backend": label, "options": {"word": "some"}}]
    (folder / "config.json").write_text(json.dumps(data))
    succeeds(run(*lower("config.json")))
    report = json.loads((folder / "report.json").read_text())
    assert report["delegates"] == ["TestBackend"]
    assert report["methods"]["encode"]["delegates"] == ["TestBackend"]
    assert report["methods"]["decode"]["delegates"] == []
    assert report["delegation"]["encode"]["num_delegated_nodes"] == 2
    assert report["delegation"]["decode"]["by_operator"]["aten.linear.default"]["not_delegated"] == 1
    assert b"speed=fast" in (folder / "out.pte").read_bytes()


def test_export_gives_the_same_bytes_whatever_the_hash_seed(folder: Path, run: Callable[..., Done]):
    succeeds(run(*export("encode")))
    first = (folder / "encode.edge").read_bytes(), (folder / "encode.constants").read_bytes()
    succeeds(run_apart(folder, *export("encode"), seed="1"))
    assert ((folder / "encode.edge").read_bytes(), (folder / "encode.constants").read_bytes()) == first


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model", "must be written MODULE:NAME"),
        ("modle:net", "there is no module 'modle'"),
        ("model:nett", "module model has no 'nett'; did you mean 'net'?"),
        ("model:broken", "ZeroDivisionError: division by zero"),
        ("model:module", "model:module returned a Net"),
    ],
)
def test_a_wrong_model_is_explained(folder: Path, run: Callable[..., Done], model: str, message: str):
    assert message in fails(run(*export("encode", model=model)))


def test_a_failing_factory_is_shown_at_its_line(folder: Path, run: Callable[..., Done]):
    error = fails(run(*export("encode", model="model:broken")))
    assert "model.py:" in error and "return 1 / 0" in error


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"out.weihgt": {"dtype": "F32", "shape": [10, 8]}}, "'out.weight' is missing; did you mean 'out.weihgt'?"),
        ({"out.weight": {"dtype": "F16", "shape": [10, 8]}}, "is float16[10, 8], but float32[10, 8] in the model"),
        ([], "not a JSON object"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_an_error_at_export(
    folder: Path, run: Callable[..., Done], entry: object, message: str
):
    (folder / "names.json").write_text(json.dumps(entry))
    assert message in fails(run(*export("decode", "--checkpoint-names", "names.json")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "not a configuration of `lower`"),
        ("absent.json", "there is no file 'absent.json'"),
        (config(), "there is no file"),
        (config(methods={}), "there is no method to lower"),
        (config(backends={"//b": {"id": "B", "module": "no.such", "partitioner": None}}), "no module 'no.such'"),
    ],
)
def test_a_wrong_configuration_is_an_error(folder: Path, run: Callable[..., Done], text: str, message: str):
    assert message in fails(run(*lower(text)))
    assert not (folder / "out.pte").exists()


def test_inspect_of_another_file_is_one_line(folder: Path, run: Callable[..., Done]):
    error = fails(run("inspect", "model.py"))
    assert error.count("\n") == 1


def test_inspect_imports_no_torch(folder: Path):
    (folder / "encode.edge").write_text("{}")
    (folder / "sitecustomize.py").write_text("import sys; sys.modules['torch'] = None\n")
    assert "not" in fails(run_apart(folder, "inspect", "encode.edge"))


def test_operators_lists_the_runtimes_kernels(folder: Path, run: Callable[..., Done]):
    stock = succeeds(run("operators")).splitlines()
    assert "aten::add.out" in stock and len(stock) == 240
    assert "there is no operator set 'stok'" in fails(run("operators", "stok"))


def test_help_names_the_commands(run: Callable[..., Done], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(command in text for command in ("export", "lower", "inspect", "operators"))
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    assert "--checkpoint-names" in capsys.readouterr().out


def exported_plain(run: Callable[..., Done], **changes: object) -> str:
    """The configuration that lowers the model `plain`, exported."""
    succeeds(run(*export("forward", model="model:plain")))
    method = {"graph": "forward.edge", "constants": "forward.constants", "lowering": [], "model": "model:plain"}
    return config(methods={"forward": method}, **changes)


def plain_model() -> torch.nn.Module:
    import model  # of the test's folder

    return model.plain().module


def test_a_recipe_says_how_exported_methods_are_lowered(folder: Path, run: Callable[..., Done]):
    text = exported_plain(run, recipe="model:tanh_recipe", options={"alignment": 32})
    (folder / "forward.constants").rename(folder / "moved")  # so that it is seen to be read
    assert "forward.constants" in fails(run(*lower(text)))
    (folder / "moved").rename(folder / "forward.constants")
    succeeds(run(*lower(text)))
    first, _, second = plain_model()
    x = torch.randn(2, 128)
    ((actual,),) = run_methods(folder / "out.pte", [("forward", [x])])
    torch.testing.assert_close(actual, second(torch.tanh(first(x))))


def test_a_recipe_that_imports_a_backend_not_named_is_told_where_to_name_it(
    folder: Path, run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
):
    text = exported_plain(run, recipe="needs_backend:recipe")
    (folder / "needs_backend.py").write_text("import rules_executorch.backends.xnnpack\n")
    monkeypatch.setitem(sys.modules, "rules_executorch.backends", None)
    monkeypatch.delitem(sys.modules, "rules_executorch.backends.xnnpack", raising=False)
    assert 'backends = ["@rules_executorch//backends/NAME"]' in fails(run(*lower(text)))


def test_a_recipe_that_quantizes_begins_with_the_model_and_its_checkpoint(folder: Path, run: Callable[..., Done]):
    pytest.importorskip("torchao")
    text = exported_plain(run, recipe="model:int8_recipe", weights="weights.safetensors")
    net = plain_model()
    with torch.no_grad():
        net[2].bias.fill_(100.0)
    save_file(net.state_dict(), folder / "weights.safetensors")
    status, _, errors = run_apart(folder, *lower(text))
    assert (status, errors) == (0, ""), "nothing is said of what torchao lacks"
    x = torch.randn(2, 128)
    ((actual,),) = run_methods(folder / "out.pte", [("forward", [x])])
    torch.testing.assert_close(actual, net(x), atol=0.05, rtol=0)
    weights = [each for each in net.state_dict().values() if each.dim() == 2]
    assert (folder / "out.pte").stat().st_size < sum(each.numel() * 4 for each in weights)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("model:no_recipe", "the recipe: module model has no 'no_recipe'"),
        ("model:plain", "the recipe model:plain returned a Model"),
        ("model:broken", "the recipe model:broken fails: ZeroDivisionError"),
    ],
)
def test_a_wrong_recipe_is_explained(folder: Path, run: Callable[..., Done], recipe: str, message: str):
    assert message in fails(run(*lower(exported_plain(run, recipe=recipe))))


def test_an_unknown_option_or_set_of_operators_is_an_error_with_the_nearest(folder: Path, run: Callable[..., Done]):
    assert "there is no option 'aligment'; did you mean 'alignment'?" in fails(
        run(*lower(exported_plain(run, options={"aligment": 1})))
    )
    assert "there is no operator set 'quantised'" in fails(
        run(*lower(exported_plain(run, options={"operators": ["quantised"]})))
    )
