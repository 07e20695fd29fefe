"""Cutting: constants, state, several outputs, symbolic sizes, control flow, cycles."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_executorch.lowering.delegation.backend import DelegationSpec, Partitioner, PartitionResult
from rules_executorch.lowering.delegation.lowered_module import lowered_modules
from rules_executorch.lowering.delegation.partitioning import partition_supported
from rules_executorch.lowering.delegation.to_backend import to_backend
from rules_executorch.lowering.errors import LoweringError
from support.delegation import TagBy, assert_same_results, delegates_of, export, names_of, run, tag_named
from torch.export import Dim
from torch.export.graph_signature import OutputKind

X = torch.arange(6.0).reshape(2, 3)


class Tagged(Partitioner):
    """Sets tags by node name, on placeholders and output too, and nothing else."""

    def __init__(self, **tags: str):
        self.tags = tags

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        for node in exported_program.graph.nodes:
            if node.name in self.tags:
                node.meta["delegation_tag"] = self.tags[node.name]
        return PartitionResult(exported_program, dict.fromkeys(self.tags.values(), DelegationSpec("Recorder")))


class TwoUses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.cos(torch.sin(x) * self.weight) + self.weight


def test_a_tagged_constant_used_outside_is_refused() -> None:
    with pytest.raises(LoweringError, match="'weight' is tagged 't', but used outside of every partition, by add"):
        to_backend(export(TwoUses(), X), Tagged(p_weight="t", mul="t"))


def test_an_untagged_constant_is_an_input_and_stays() -> None:
    program = export(TwoUses(), X)
    delegated = to_backend(program, Tagged(mul="t"))
    assert list(delegated.state_dict) == ["weight"]
    assert_same_results(program, delegated, (X,))


def test_partitions_share_a_constant_that_only_they_use() -> None:
    program = export(TwoUses(), X)
    delegated = to_backend(program, TagBy(tag_named(mul="a", add="b")))
    assert delegated.state_dict == {}
    first, second = lowered_modules(delegated.graph_module)
    assert first.original_program.state_dict["weight"] is second.original_program.state_dict["weight"]
    assert_same_results(program, delegated, (X,))


def test_a_constant_that_must_not_be_copied_is_not_shared() -> None:
    class Strict(Tagged):
        def partition(self, exported_program):  # type: ignore[no-untyped-def]
            next(node for node in exported_program.graph.nodes if node.name == "p_weight").meta["no_copy"] = True
            return super().partition(exported_program)

    with pytest.raises(LoweringError, match=r"must not be copied \(no_copy\), but several partitions use it: a, b"):
        to_backend(export(TwoUses(), X), Strict(p_weight="a", mul="a", add="b"))


@pytest.mark.parametrize("name, message", [("x", "input of the method"), ("output", "output of the graph")])
def test_tags_on_the_methods_own_inputs_and_output_are_refused(name: str, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        to_backend(export(TwoUses(), X), Tagged(**{name: "t", "sin": "t"}))


def test_a_tag_without_a_spec_is_refused() -> None:
    class Forgetful(Tagged):
        def partition(self, exported_program):  # type: ignore[no-untyped-def]
            tagged = super().partition(exported_program).tagged_exported_program
            return PartitionResult(tagged, {"u": DelegationSpec("Recorder")})

    with pytest.raises(LoweringError, match=r"tag 't' has no DelegationSpec in partition_tags \(there are: u\)"):
        to_backend(export(TwoUses(), X), Forgetful(sin="t"))


def test_a_call_cannot_be_delegated_twice() -> None:
    with pytest.raises(LoweringError, match="delegated already"):
        to_backend(export(TwoUses(), X), [Tagged(sin="t"), Tagged(executorch_call_delegate="t")])


def test_a_constant_that_is_returned_stays() -> None:
    class Returned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x * self.weight, self.weight

    program = export(Returned(), X)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    assert list(delegated.state_dict) == ["weight"]
    assert_same_results(program, delegated, (X,))


class Counting(torch.nn.Module):
    """State that is read, written, and whose new value is used further on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.total.add_(x.sum(0))
        return torch.sin(self.total) * x, self.total.clone()


CALLS = ((X,), (X + 1,), (X - 2,))


def test_a_delegate_owns_its_state_and_hands_out_the_new_value() -> None:
    program = export(Counting(), X)
    delegated = to_backend(program, TagBy(tag_named(sum_1="t", add="t"), state=True))
    assert delegated.state_dict == {}
    assert all(spec.kind == OutputKind.USER_OUTPUT for spec in delegated.graph_signature.output_specs)
    assert_same_results(program, delegated, *CALLS)


def test_whole_graph_state_is_the_delegates() -> None:
    program = export(Counting(), X)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    assert delegated.state_dict == {}
    assert_same_results(program, delegated, *CALLS)


def test_untagged_state_is_handed_back_to_the_program() -> None:
    program = export(Counting(), X)
    delegated = to_backend(program, TagBy(tag_named(sum_1="t", add="t")))
    assert list(delegated.state_dict) == ["total"]
    assert [spec.kind for spec in delegated.graph_signature.output_specs][0] == OutputKind.BUFFER_MUTATION
    assert_same_results(program, delegated, *CALLS)


def test_state_that_another_partition_computes_is_refused() -> None:
    class Doubled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):  # type: ignore[no-untyped-def]
            read = torch.cos(self.total)
            self.total.copy_(torch.sin(x.sum(0)))
            return read

    names = names_of(export(Doubled(), X))
    new_value = next(name for name in names if name.startswith(("copy", "sin")))
    with pytest.raises(LoweringError, match=r"mutated buffer 'total' is tagged.*not in one partition \(tags: "):
        to_backend(export(Doubled(), X), Tagged(b_total="t", cos="t", **{new_value: "u"}))


def test_a_delegate_that_only_keeps_state_is_not_dead_code() -> None:
    class Sink(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):  # type: ignore[no-untyped-def]
            self.total.add_(x.sum(0))
            return x

    delegated = to_backend(export(Sink(), X), DelegationSpec("Recorder"))
    delegated.graph.eliminate_dead_code()
    assert len(delegates_of(delegated)) == 1


def test_mutated_inputs_stay_the_programs() -> None:
    class Write(torch.nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            y.add_(torch.sin(x))
            return y * 2

    program = export(Write(), X, X + 1)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    assert delegated.graph_signature.output_specs[0].kind == OutputKind.USER_INPUT_MUTATION
    y, expected = X + 1, X + 1
    result, wanted = delegated.module()(X, y), program.module()(X, expected)
    torch.testing.assert_close((result, y), (wanted, expected))


class Split(torch.nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        a, b = torch.split(torch.sin(x), [1, 2], dim=1)
        values, indices = torch.max(b, dim=1)
        return a * 2, values, indices


@pytest.mark.parametrize("tags", [{"split_with_sizes": "t"}, {"max_1": "t", "mul": "t"}, {"getitem": "t", "mul": "t"}])
def test_getitems_go_with_what_makes_the_tuple(tags: dict[str, str]) -> None:
    program = export(Split(), X)
    delegated = to_backend(program, TagBy(tag_named(**tags)))
    assert len(delegates_of(delegated)) == 1
    assert_same_results(program, delegated, (X,))


def test_sizes_enter_and_leave_partitions() -> None:
    class Flatten(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.sin(x.reshape(x.shape[0] * 3)) + x.shape[0], x.shape[0] * 3

    program = export(Flatten(), X, dynamic_shapes=({0: Dim("b", min=1, max=9)},))
    sizes = [node.name for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.SymInt)]
    for names in ([sizes[0]], sizes[1:], ["sin"], sizes, [sizes[-1], "view", "sin"]):
        delegated = to_backend(program, TagBy(tag_named(**dict.fromkeys(names, "t"))))
        assert delegates_of(delegated)
        assert_same_results(program, delegated, (X,), (torch.ones(5, 3),))


class Loops(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x):  # type: ignore[no-untyped-def]
        y = torch.cond(x.sum() > 0, lambda x: torch.sin(x) * self.weight, lambda x: torch.cos(x), (x,))
        step = torch.zeros((), dtype=torch.int64)
        return torch.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, torch.tanh(z * self.weight)), (step, y))[1]


@pytest.mark.parametrize("name", ["sin", "cos", "mul", "tanh"])
def test_partitions_in_bodies_of_control_flow(name: str) -> None:
    program = export(Loops(), X)
    delegated = to_backend(program, TagBy(lambda node: name if node.name.startswith(name) else None))
    assert len(delegates_of(delegated)) >= 1
    assert all(node.graph is not delegated.graph for node in delegates_of(delegated))
    assert_same_results(program, delegated, (X,), (-X,))


def test_map_and_scan_bodies() -> None:
    from functorch.experimental.control_flow import map as et_map
    from torch._higher_order_ops.scan import scan

    class Mapped(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            mapped = et_map(lambda row: torch.sin(row) + 1, x)
            carry, rows = scan(lambda c, r: (c + torch.sin(r), c * 2), torch.zeros(3), x)
            return mapped, carry, rows

    program = export(Mapped(), X)
    delegated = to_backend(program, TagBy(lambda node: "t" if node.name.startswith("sin") else None))
    assert len(delegates_of(delegated)) == 2
    assert_same_results(program, delegated, (X,))


def test_control_flow_can_be_delegated_with_its_bodies() -> None:
    program = export(Loops(), X)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    assert len(delegates_of(delegated)) == 1
    assert_same_results(program, delegated, (X,), (-X,))


class Diamond(torch.nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return torch.sin(x) + torch.tanh(torch.cos(torch.sin(x)))


def test_a_partition_that_needs_its_own_output_is_refused() -> None:
    program = export(Diamond(), X)
    with pytest.raises(LoweringError, match=r"partition 't' needs its own output: cos -> partition 't' -> cos"):
        to_backend(program, TagBy(lambda node: None if node.name == "cos" else "t"))


def test_partitions_that_need_each_other_are_refused() -> None:
    class Crossed(torch.nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            a, b = torch.sin(x), torch.cos(y)
            return torch.tanh(b), torch.exp(a)

    with pytest.raises(LoweringError, match="partition 'p' -> partition 'q' -> partition 'p'"):
        to_backend(export(Crossed(), X, X), TagBy(tag_named(sin="p", tanh="p", cos="q", exp="q")))


def test_interleaved_partitions_are_ordered() -> None:
    class Interleaved(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            a, b = torch.sin(x), torch.cos(x)
            c, d = torch.tanh(a), torch.exp(b)
            return c + 1, d + c

    program = export(Interleaved(), X)
    delegated = to_backend(program, TagBy(tag_named(sin="p", tanh="p", cos="q", exp="q", add_1="q")))
    assert len(delegates_of(delegated)) == 2
    assert_same_results(program, delegated, (X,))


class Random(torch.nn.Module):
    """A graph of random operators on earlier values, over two parameters, with or without state."""

    def __init__(self, picks: list[tuple[int, int, int]], outputs: list[int], stateful: bool):
        super().__init__()
        self.picks, self.outputs, self.stateful = picks, outputs, stateful
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 3))
        self.register_buffer("scale", torch.linspace(1, 2, 3))
        if stateful:
            self.register_buffer("state", torch.ones(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        values = [x, self.weight, self.scale, *([self.state] if self.stateful else [])]
        for kind, first, second in self.picks:
            a, b = values[first % len(values)], values[second % len(values)]
            a, b = torch.broadcast_tensors(a, b)
            if kind < 3:
                values.append((torch.add, torch.mul, torch.maximum)[kind](a, b))
            elif kind == 3:
                values.extend(torch.split(torch.cat([a, b], -1), 3, dim=-1))
            else:
                values.append(torch.sin(a))
        if self.stateful:
            self.state.copy_(torch.tanh(values[-1].reshape(-1, 3)[0]))
        return [values[index % len(values)] * 1 for index in self.outputs]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_partitions_of_random_graphs_compute_the_same(data: st.DataObject) -> None:
    pick = st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 30))
    picks = data.draw(st.lists(pick, min_size=1, max_size=12))
    stateful = data.draw(st.booleans())
    program = export(Random(picks, data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=3)), stateful), X)
    supported = {name: data.draw(st.booleans(), label=name) for name in names_of(program)}
    own = data.draw(st.booleans())

    class Supported(Partitioner):
        def partition(self, exported_program):  # type: ignore[no-untyped-def]
            return partition_supported(
                exported_program, lambda node: supported[node.name], DelegationSpec("Recorder"), own_mutated_buffers=own
            )

    before = copy.deepcopy(dict(program.state_dict))
    delegated = to_backend(program, Supported())
    assert_same_results(program, delegated, (X,), (X + 1,))
    torch.testing.assert_close(dict(program.state_dict), before)
    _assert_everything_supported_is_delegated(program, delegated, supported)


def _assert_everything_supported_is_delegated(program, delegated, supported) -> None:  # type: ignore[no-untyped-def]
    left = Counter(node.target for node in delegated.graph.nodes if isinstance(node.target, torch._ops.OpOverload))
    names = {node.name: node.target for node in program.graph.nodes}
    refused = Counter(
        names[name] for name, ok in supported.items() if not ok and isinstance(names[name], torch._ops.OpOverload)
    )
    assert left == refused


def test_running_a_delegated_program_leaves_the_original_state_alone() -> None:
    program = export(Counting(), X)
    delegated = to_backend(program, DelegationSpec("Recorder"))
    run(delegated, (X,))
    assert program.state_dict["total"].tolist() == [0, 0, 0]
