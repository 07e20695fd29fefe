"""From exported programs to a .pte through the public API, run on the official runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rules_executorch import lowering
from rules_executorch.lowering import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    LoweringError,
    MemoryPlanningPass,
    Partitioner,
    PartitionResult,
    to_edge,
    to_edge_transform_and_lower,
)
from torch import nn
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_base import PassResult

from support.children import python_path
from support.official_runtime import run_methods


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


X = torch.randn(3, 4)


def exported(module: nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    return torch.export.export(module, inputs or (X,))


def test_a_single_program_becomes_the_method_forward():
    net = Net()
    program = to_edge(exported(net)).to_executorch()
    assert program.methods == {"forward"}
    ((actual,),) = run_methods(program.buffer, [("forward", [X])])
    torch.testing.assert_close(actual, net(X))


def test_methods_constant_methods_and_state_of_managers():
    edge = to_edge({"a": exported(Net()), "b": exported(Net())}, constant_methods={"max_length": 7})
    assert (edge.methods, edge.config_methods) == ({"a", "b"}, {"max_length"})
    program = edge.to_executorch()
    assert (program.methods, program.config_methods) == ({"a", "b"}, {"max_length"})
    (value,) = run_methods(program.buffer, [("max_length", [])])
    assert value == [7]


def test_an_unknown_method_is_an_error_with_the_nearest():
    edge = to_edge({"encode": exported(Net())})
    with pytest.raises(LoweringError, match="no method 'encoder'; did you mean 'encode'?"):
        edge.exported_program("encoder")


def test_a_name_is_a_method_or_a_constant_method():
    with pytest.raises(LoweringError, match="'a' is both a method and a constant method"):
        to_edge({"a": exported(Net())}, constant_methods={"a": 1})


def relu_to_tanh(module: torch.fx.GraphModule) -> PassResult:
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.tanh.default
    return PassResult(module, True)


def test_transform_runs_passes_on_a_copy_of_each_method():
    net = Net()
    edge = to_edge({"a": exported(net), "b": exported(net)})
    changed = edge.transform({"a": [relu_to_tanh]})
    outputs = run_methods(changed.to_executorch().buffer, [("a", [X]), ("b", [X])])
    torch.testing.assert_close(outputs[0][0], net.second(torch.tanh(net.first(X))))
    torch.testing.assert_close(outputs[1][0], net(X))
    ((before,),) = run_methods(edge.to_executorch().buffer, [("a", [X])])
    torch.testing.assert_close(before, net(X))


def test_passes_for_a_method_that_does_not_exist_are_an_error():
    with pytest.raises(LoweringError, match="passes are given for method 'c'"):
        to_edge({"a": exported(Net())}).transform({"c": [relu_to_tanh]})


def test_passes_of_the_backend_config_run_before_emission():
    net = Net()
    program = to_edge(exported(net)).to_executorch(ExecutorchBackendConfig(passes=[relu_to_tanh]))
    ((actual,),) = run_methods(program.buffer, [("forward", [X])])
    torch.testing.assert_close(actual, net.second(torch.tanh(net.first(X))))


def test_without_planned_inputs_the_callers_memory_is_used():
    from rules_executorch.lowering.format.read import read_pte

    planning = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    edge = to_edge(exported(Net()))
    planned = edge.to_executorch()
    unplanned = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    sizes = [sum(read_pte(p.buffer).program.execution_plan[0].non_const_buffer_sizes) for p in (planned, unplanned)]
    assert sizes[1] < sizes[0]
    ((actual,),) = run_methods(unplanned.buffer, [("forward", [X])])
    ((expected,),) = run_methods(planned.buffer, [("forward", [X])])
    torch.testing.assert_close(actual, expected)


def test_external_constants_go_to_a_file_beside_the_program(tmp_path: Path):
    net = Net()
    program = to_edge(exported(net)).to_executorch(ExecutorchBackendConfig(external_constants=True))
    program.write_tensor_data_to_file(tmp_path / "data")
    (ptd,) = (tmp_path / "data").glob("*.ptd")
    ((actual,),) = run_methods(program.buffer, [("forward", [X])], ptd=ptd)
    torch.testing.assert_close(actual, net(X))


def test_save_write_and_buffer_give_the_same_bytes(tmp_path: Path):
    program = to_edge(exported(Net())).to_executorch()
    program.save(tmp_path / "a.pte")
    with open(tmp_path / "b.pte", "wb") as file:
        program.write_to_file(file)
    assert (tmp_path / "a.pte").read_bytes() == (tmp_path / "b.pte").read_bytes() == program.buffer
    with pytest.raises(LoweringError, match="ends in .pte"):
        program.save(tmp_path / "a.bin")


def test_lowering_again_gives_the_same_bytes():
    net = Net()
    one, other = (to_edge_transform_and_lower(exported(net)).to_executorch().buffer for _ in range(2))
    assert one == other


class Sorting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x)[0]


def test_an_operator_without_kernel_is_refused_with_the_models_line():
    with pytest.raises(LoweringError) as error:
        to_edge(exported(Sorting(), torch.randn(3, 3))).to_executorch()
    assert "return torch.linalg.qr(x)[0]" in str(error.value)
    assert error.value.remedies


def test_an_operator_on_the_exception_list_is_not_checked():
    edge = to_edge(exported(Sorting(), torch.randn(3, 3)))
    (op,) = {node.target for node in edge.exported_program().graph.nodes if "qr" in str(node.target)}
    config = EdgeCompileConfig(_core_aten_ops_exception_list=[op])
    program = EdgeProgramManager(edge.exported_program(), compile_config=config).to_executorch()
    (operator,) = {str(each) for each in program.executorch_program.program_file.program.execution_plan[0].operators}
    assert "qr" in operator


class LooksAtHardswish(Partitioner):
    """Wants hardswish whole where it follows linear; takes nothing."""

    def ops_to_not_decompose(self, exported_program):
        def wanted(node: torch.fx.Node) -> bool:
            return node.args[0].target is torch.ops.aten.linear.default

        return [torch.ops.aten.hardswish.default], wanted

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        nodes = list(exported_program.graph.nodes)
        self.kept = sum(node.target is torch.ops.aten.hardswish.default for node in nodes)
        return PartitionResult(exported_program, {})


def test_operators_are_whole_while_partitioners_look_and_decomposed_where_none_takes_them():
    class Swish(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.hardswish(self.linear(x)) + nn.functional.hardswish(x)

    module = Swish()
    partitioner = LooksAtHardswish()
    edge = to_edge_transform_and_lower(exported(module), partitioner=[partitioner])
    assert partitioner.kept == 1
    assert not any(node.target is torch.ops.aten.hardswish.default for node in edge.exported_program().graph.nodes)
    ((actual,),) = run_methods(edge.to_executorch().buffer, [("forward", [X])])
    torch.testing.assert_close(actual, module(X))


def test_a_partitioner_for_a_method_that_does_not_exist_is_an_error():
    with pytest.raises(LoweringError, match="method 'b'"):
        to_edge_transform_and_lower({"a": exported(Net())}, partitioner={"b": LooksAtHardswish()})


def test_dump_and_maps_describe_the_program(capsys: pytest.CaptureFixture[str]):
    program = to_edge(exported(Net())).to_executorch()
    program.dump_executorch_program()
    assert "forward" in capsys.readouterr().out
    assert set(program.debug_handle_map) == {"forward"}
    assert program.delegate_map == {"forward": {}}


def test_importing_the_package_imports_no_torch():
    code = "import sys, rules_executorch.lowering; print('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_all_public_names_exist():
    for name in lowering.__all__:
        assert getattr(lowering, name) is not None
