"""to_backend: its forms, its calls of backends, and that a delegated program still is the same program."""

from __future__ import annotations

import pytest
import torch
from rules_executorch.lowering.delegation.backend import CompileSpec, DelegationSpec, Partitioner, PartitionResult
from rules_executorch.lowering.delegation.lowered_module import LoweredBackendModule, lowered_modules
from rules_executorch.lowering.delegation.partitioning import partition_supported
from rules_executorch.lowering.delegation.to_backend import MethodProgramsPartitionerSpec, to_backend
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.program import EdgeProgramManager
from support.delegation import (
    OtherRecorder,
    Recorder,
    TagBy,
    assert_same_results,
    delegates_of,
    export,
    names_of,
    tag_named,
)

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def fresh_recorders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "calls", [])
    monkeypatch.setattr(OtherRecorder, "calls", [])


class Chain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.sin(self.linear(x)) + x


def test_a_whole_program_becomes_a_delegate_that_runs_in_python() -> None:
    program = export(Chain(), X)
    delegate = to_backend("Recorder", program, [CompileSpec("speed", b"11")])
    assert isinstance(delegate, LoweredBackendModule)
    assert (delegate.backend_id, delegate.compile_specs) == ("Recorder", [CompileSpec("speed", b"11")])
    assert b"sin" in delegate.processed_bytes
    torch.testing.assert_close(delegate(X), (program.module()(X),))


def test_a_delegation_spec_takes_the_whole_graph_and_its_weights() -> None:
    program = export(Chain(), X)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    assert [node.name for node in delegates_of(delegated)] == ["executorch_call_delegate"]
    assert delegated.state_dict == {}
    assert delegated.graph_signature.parameters == ()
    assert_same_results(program, delegated, (X,))


def test_nodes_may_have_names_of_pythons_own() -> None:
    program = export(torch.nn.Sequential(Chain()), X)
    assert program.graph_signature.user_inputs == ("input",)
    assert_same_results(program, to_backend(program, TagBy(tag_named(sin="a"))), (X,))


def test_the_program_given_stays_as_it_was() -> None:
    program = export(Chain(), X)
    before = str(program.graph), str(program.graph_signature), list(program.state_dict)
    to_backend(program, TagBy(lambda node: "t"))
    assert (str(program.graph), str(program.graph_signature), list(program.state_dict)) == before
    assert not any("delegation_tag" in node.meta for node in program.graph.nodes)


def test_nodes_keep_their_names_and_metadata() -> None:
    program = export(Chain(), X)
    before = {node.name: node.meta for node in program.graph.nodes}
    delegated = to_backend(program, TagBy(tag_named(linear="t")))
    (delegate,) = lowered_modules(delegated.graph_module)
    for node in (*delegate.original_program.graph.nodes, *delegated.graph.nodes):
        for key in ("val", "stack_trace", "nn_module_stack") if node.name in before else ():
            assert node.meta.get(key) is before[node.name].get(key), (node, key)


def test_all_methods_are_compiled_in_one_call_per_backend() -> None:
    programs = {"a": export(Chain(), X), "b": export(Chain(), X), "c": export(Chain(), X)}
    split = TagBy(tag_named(sin="one", add="two"), backends={"two": "OtherRecorder"})
    delegated = to_backend(programs, {"a": split, "c": split})
    assert Recorder.calls == [{"a": [["sin"]], "c": [["sin"]]}]
    assert [sorted(call) for call in OtherRecorder.calls] == [["a", "c"]]
    assert list(delegated) == ["a", "b", "c"]
    assert delegated["b"] is programs["b"]
    for method in programs:
        assert_same_results(programs[method], delegated[method], (X,))


def test_one_partitioner_serves_all_methods() -> None:
    programs = {"a": export(Chain(), X), "b": export(Chain(), X)}
    to_backend(programs, TagBy(tag_named(sin="t")))
    assert Recorder.calls == [{"a": [["sin"]], "b": [["sin"]]}]


def test_executorchs_spec_for_methods_is_accepted() -> None:
    program = export(Chain(), X)
    spec = MethodProgramsPartitionerSpec({"a": program}, {"a": DelegationSpec("Recorder")})
    assert len(delegates_of(to_backend(spec)["a"])) == 1


def test_partitioners_of_a_list_take_turns_and_share_the_call() -> None:
    program = export(Chain(), X)
    delegated = to_backend(program, [TagBy(tag_named(sin="t")), TagBy(tag_named(add="t"))])
    assert Recorder.calls == [{"forward": [["sin"], ["add"]]}]
    assert_same_results(program, delegated, (X,))


def test_a_delegation_spec_after_a_partitioner_takes_the_rest() -> None:
    program = export(Chain(), X)
    delegated = to_backend(program, [TagBy(tag_named(sin="t")), DelegationSpec("OtherRecorder")])
    assert len(delegates_of(delegated)) == len(names_of(delegated)) - 3 == 3  # each with one getitem
    assert_same_results(program, delegated, (X,))


def test_a_method_that_computes_nothing_passes_through() -> None:
    class Identity(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x

    assert delegates_of(to_backend(export(Identity(), X), DelegationSpec("Recorder"))) == []


def test_an_unknown_backend_is_named_before_any_work() -> None:
    with pytest.raises(LoweringError, match="'Recoder' is not registered.*did you mean"):
        to_backend(export(Chain(), X), DelegationSpec("Recoder"))
    assert Recorder.calls == []


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(LoweringError, match="'forwrd'.*methods are: forward"):
        to_backend({"forward": export(Chain(), X)}, {"forwrd": DelegationSpec("Recorder")})


def test_something_else_than_a_partitioner_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a Partitioner or a DelegationSpec"):
        to_backend(export(Chain(), X), "Recorder")


class Impure(Partitioner):
    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        for node in exported_program.graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default
        return partition_supported(exported_program, lambda node: True, DelegationSpec("Recorder"))


def test_a_partitioner_that_changes_the_graph_is_refused() -> None:
    with pytest.raises(LoweringError, match="Impure changed the graph") as caught:
        to_backend(export(Chain(), X), Impure())
    assert caught.value.node.name == "sin"


def test_a_partitioner_may_change_the_graph_where_that_is_asked_for() -> None:
    program = export(Chain(), X)
    delegated = to_backend(program, Impure(), check_purity=False)
    assert (delegated.module()(X) - program.module()(X)).abs().max() > 0.1
    assert [node.target for node in program.graph.nodes if node.name == "sin"] == [torch.ops.aten.sin.default]
    with pytest.raises(LoweringError, match="Impure changed the graph"):
        EdgeProgramManager(program).to_backend(Impure())
    assert delegates_of(EdgeProgramManager(program).to_backend(Impure(), check_purity=False).exported_program())


def test_a_partitioner_sees_no_data() -> None:
    class Peek(Partitioner):
        def partition(self, exported_program):  # type: ignore[no-untyped-def]
            assert all(
                isinstance(tensor.data, torch._subclasses.FakeTensor) for tensor in exported_program.state_dict.values()
            )
            assert set(exported_program.state_dict) == {"linear.weight", "linear.bias"}
            return PartitionResult(exported_program, {})

    program = export(Chain(), X)
    delegated = to_backend(program, Peek())
    assert all(delegated.state_dict[name] is tensor for name, tensor in program.state_dict.items())


def test_weights_are_never_copied() -> None:
    program = export(Chain(), X)
    (delegate,) = lowered_modules(to_backend(program, DelegationSpec("Recorder")).graph_module)
    for name, tensor in delegate.original_program.state_dict.items():
        assert tensor is program.state_dict[name]


def test_a_backend_that_forgets_a_partition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "preprocess_multimethod", lambda programs, specs: {"forward": []})
    with pytest.raises(TypeError, match="must return one PreprocessResult for each of the 1 partitions"):
        to_backend(export(Chain(), X), DelegationSpec("Recorder"))


def test_a_backend_may_change_the_program_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Recorder.preprocess

    def preprocess(program, specs):  # type: ignore[no-untyped-def]
        output = program.graph.output_node()
        output.args = (tuple(node for node in program.graph.nodes if node.op == "placeholder")[-1:],)
        program.graph.eliminate_dead_code()
        return original(program, specs)

    monkeypatch.setattr(Recorder, "preprocess", staticmethod(preprocess))
    program = export(Chain(), X)
    assert_same_results(program, to_backend(program, DelegationSpec("Recorder")), (X,))


def test_debug_handles_of_calls_are_new() -> None:
    program = export(Chain(), X)
    for handle, node in enumerate(program.graph.nodes):
        node.meta["debug_handle"] = handle
    delegated = to_backend(program, [TagBy(tag_named(sin="t")), TagBy(tag_named(add="t"))])
    handles = [node.meta["debug_handle"] for node in delegates_of(delegated)]
    assert len(set(handles)) == 2
    assert min(handles) >= len(program.graph.nodes)
