"""What ExecuTorch 1.4.1's own lowering gets wrong, one test each: here it is right, or refused at build time."""

from __future__ import annotations

import math

import pytest
import torch
from rules_executorch.backends.reference import BACKEND_ID
from rules_executorch.lowering import (
    BackendDetails,
    DelegationSpec,
    ExecutorchBackendConfig,
    ExportRecipe,
    LoweringError,
    LoweringRecipe,
    MemoryPlanningPass,
    Method,
    Model,
    NamedDataStore,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    StageType,
    register_backend,
    to_edge,
)
from rules_executorch.lowering.delegation.partitioning import tag_constant_data, tag_mutated_buffer
from support.modules import Apply
from support.official_runtime import RuntimeFailure, run_methods, run_methods_here
from support.programs import assert_matches, forward, lowered, operators, plan_of
from support.reference_runtime import library
from torch import nn

X = torch.tensor([1.0, -2.0, 3.0])
CALLERS_MEMORY = ExecutorchBackendConfig(
    memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
)


# -- Control flow -----------------------------------------------------------------------------------


def test_two_conds_in_one_graph():
    def two(x: torch.Tensor) -> torch.Tensor:
        first = torch.cond(x.sum() > 0, lambda x: x * 3, lambda x: x - 5, (x,))
        second = torch.cond(x.sum() > 10, lambda x: x + 100, lambda x: x * 7, (x,))
        return first - second

    program = lowered(Apply(two), X)
    assert_matches(program, Apply(two), *forward([X], [X - 4], [X + 4], [X]))


def test_a_cond_whose_results_are_the_callers_and_nothing_else_is_planned():
    branch = Apply(lambda p, x: torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,)))
    yes, no = torch.tensor(True), torch.tensor(False)
    program = lowered(branch, yes, X, config=CALLERS_MEMORY)
    assert_matches(program, branch, *forward([yes, X], [no, X], [yes, X]))


def test_while_loop():
    def halve(x: torch.Tensor) -> torch.Tensor:
        return torch.while_loop(lambda x: x.abs().sum() > 1, lambda x: (x / 2,), (x,))[0]

    program = lowered(Apply(halve), X)
    assert_matches(program, Apply(halve), *forward([X], [X * 100], [X / 100], [X]))


def test_map_over_several_inputs_with_several_results():
    from torch._higher_order_ops.map import map as map_

    def twice(xs: torch.Tensor, ys: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        return map_(lambda pair, z: [pair[0] + z, pair[1] * pair[0]], (xs, ys), z)

    inputs = (torch.randn(4, 3), torch.randn(4, 3), X)
    assert_matches(lowered(Apply(twice), *inputs), Apply(twice), *forward(inputs, inputs))


def test_a_loop_that_failed_starts_afresh_in_the_next_run():
    def pick(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, total + table.index_select(0, indices.index_select(0, i)).sum()

        return torch.while_loop(
            lambda i, total: (i < 4).all(), body, (torch.zeros(1, dtype=torch.long), torch.zeros(()))
        )[1]

    table, good, bad = torch.arange(5.0), torch.tensor([0, 4, 2, 1]), torch.tensor([3, 3, 99, 3])
    pte = lowered(Apply(pick), table, good).buffer
    with pytest.raises(RuntimeFailure):
        run_methods(pte, [("forward", [table, bad])])
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(pte).load_method("forward")
    with pytest.raises(RuntimeError):
        method.execute([table, bad])
    assert method.execute([table, good])[0].item() == 7.0


# -- Kernels ----------------------------------------------------------------------------------------


def test_nonzero_is_stored_in_the_order_in_which_its_kernel_writes():
    where = Apply(lambda x: torch.nonzero(x) * 10)
    x = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    assert_matches(lowered(where, x), where, *forward([x], [x.flip(0)], [torch.zeros_like(x)]))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_not_taken_apart(bias: bool):
    net = nn.Linear(64, 32, bias=bias)
    program = lowered(net, torch.randn(4, 64))
    assert operators(program) == ["linear.out"]
    assert_matches(program, net, *forward([torch.randn(4, 64)]))


def test_a_product_and_a_sum_do_not_become_the_slow_addmm():
    net = Apply(lambda b, x, w: torch.addmm(b, x, w))
    inputs = (torch.randn(5), torch.randn(3, 4), torch.randn(4, 5))
    program = lowered(net, *inputs)
    assert "addmm.out" not in operators(program)
    assert_matches(program, net, *forward(inputs))


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 1, lambda x: 2 * x, lambda x: x - 0.5, lambda x: x > 1, lambda x: x / 3, lambda x: x**2],
)
def test_numbers_are_not_made_tensors_that_are_cast_in_every_run(function):  # type: ignore[no-untyped-def]
    program = lowered(Apply(function), X)
    assert len(operators(program)) == 1 and "copy" not in operators(program)[0]
    assert_matches(program, Apply(function), *forward([X]))


def test_casts_of_constants_are_done_at_build_time():
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.table.to(torch.float32) + 1).sqrt()

    assert operators(lowered(Cast(), X)) == ["mul.out"]


LOADS_NOWHERE = {
    "sort": (lambda x: torch.sort(x, -1), (4, 5)),
    "median": (lambda x: torch.median(x, 1), (4, 5)),
    "scatter_reduce": (
        lambda x: torch.scatter_reduce(x, 1, torch.tensor([[0, 0, 2], [1, 3, 3]]), x[:, :3] * 2, "amax"), (2, 5),
    ),
    "avg_pool1d": (lambda x: nn.functional.avg_pool1d(x, 3), (1, 2, 9)),
    "avg_pool3d": (lambda x: nn.functional.avg_pool3d(x, 2), (1, 2, 4, 4, 4)),
    "max_pool3d": (lambda x: nn.functional.max_pool3d(x, 2), (1, 2, 4, 4, 4)),
    "adaptive_avg_pool1d": (lambda x: nn.functional.adaptive_avg_pool1d(x, 4), (1, 2, 9)),
    "adaptive_avg_pool3d": (lambda x: nn.functional.adaptive_avg_pool3d(x, 2), (1, 2, 4, 5, 6)),
    "conv3d": (lambda x: nn.functional.conv3d(x, torch.ones(2, 2, 2, 2, 2), padding=1), (1, 2, 4, 4, 4)),
    "embedding_bag": (
        lambda x: nn.functional.embedding_bag(torch.tensor([[1, 2], [0, 3]]), x, mode="mean"), (5, 3),
    ),
    "squeeze": (torch.squeeze, (1, 3, 1)),
    "view_dtype": (lambda x: (x * 100).to(torch.int8).view(torch.uint8), (2, 3)),
    "round_to_decimals": (lambda x: torch.round(x, decimals=2), (7,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS_NOWHERE)
def test_operators_without_kernel_are_expressed_by_those_there_are(name: str):
    function, shape = LOADS_NOWHERE[name]
    x = torch.randn(shape)
    assert_matches(lowered(Apply(function), x), Apply(function), *forward([x], [x * 3]))


@pytest.mark.parametrize("function", [torch.linalg.eigvalsh, torch.fft.fft])
def test_an_operator_that_no_kernel_can_express_is_refused_at_build_time(function):  # type: ignore[no-untyped-def]
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x) * 2

    with pytest.raises(LoweringError, match="no kernel for|kernel refuses this call") as caught:
        lowered(Net(), torch.eye(2))
    message = str(caught.value)
    assert "node: " in message and "test_upstream_defects.py" in message and "  1. " in message


# -- Sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC, torch.export.Dim("n")])
def test_a_dimension_without_a_bound_is_refused(dim: object):
    with pytest.raises(LoweringError, match="has no upper bound") as caught:
        lowered(Apply(lambda x: x + 1), torch.randn(4, 3), dynamic_shapes=(({0: dim},),))
    assert "max=" in str(caught.value)


def test_a_number_as_input_that_varies_is_refused():
    with pytest.raises(LoweringError, match="is a number that varies"):
        lowered(Apply(lambda x, n: x * n), X, 3, dynamic_shapes=((None, torch.export.Dim.DYNAMIC),))


# -- State ------------------------------------------------------------------------------------------


class Counters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("up", torch.tensor([5.0, 6.0]))
        self.register_buffer("down", torch.tensor([50.0, 60.0]))

    def increase(self, x: torch.Tensor) -> torch.Tensor:
        self.up.add_(x)
        return self.up * 1

    def decrease(self, x: torch.Tensor) -> torch.Tensor:
        self.down.sub_(torch.tanh(x) * 2)
        return self.down * 1


def test_state_of_one_method_survives_calls_of_another_and_starts_as_it_was_saved():
    x = torch.tensor([1.0, 2.0])
    program = lowered(Model(Counters(), {"increase": Method((x,)), "decrease": Method((x,))}))
    calls = [(name, (x,)) for name in ("increase", "decrease", "decrease", "increase", "decrease")]
    assert_matches(program, Counters(), *calls)


def test_an_input_that_is_changed_is_changed_for_the_caller_and_is_no_further_output():
    def change(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    program = lowered(Apply(change), X.clone())
    mine = X.clone()
    ((result,),) = run_methods_here(program.buffer, [("forward", [mine])])
    assert torch.equal(mine, X * 2) and torch.equal(result, X * 2 + 1)


# -- Delegates --------------------------------------------------------------------------------------


class TakesSum(Partitioner):
    """Delegates the additions, with constants and state."""

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        for node in exported_program.graph.nodes:
            if "add" in node.name:
                node.meta["delegation_tag"] = "sum"
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, {"sum": DelegationSpec(BACKEND_ID)})


class Total(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))  # requires gradients
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * self.weight  # the delegate's new state, used outside of it


def test_state_that_a_delegate_changes_may_be_used_outside_of_it():
    program = lowered(Total(), X, partitioner=TakesSum())
    assert [each.id for each in plan_of(program).delegates] == [BACKEND_ID]
    assert_matches(program, Total(), *forward([X], [X * 2], [X]), backends=[library()])


def test_a_delegate_in_a_program_exported_with_gradients():
    program = torch.export.export(Total(), (X,))  # outside of no_grad
    pte = to_edge(program).to_backend(TakesSum()).to_executorch().buffer
    results = run_methods(pte, [("forward", [X]), ("forward", [X])], backends=[library()])
    torch.testing.assert_close(results[1][0], 2 * X * torch.tensor([1.0, 2.0, 3.0]))


class Compiler(BackendDetails):
    @staticmethod
    def preprocess(program, compile_specs):  # type: ignore[no-untyped-def]
        store = NamedDataStore()
        for key, alignment in (("first", 24), ("second", 512)):
            store.add_named_data(key, b"the same bytes", alignment=alignment)
        return PreprocessResult(b"blob", data_store_output=store.get_named_data_store_output())


class DerivedCompiler(Compiler):
    pass


register_backend("test_upstream_defects.Derived", DerivedCompiler)


def test_a_backend_may_derive_from_another_and_is_found_by_its_id():
    program = lowered(nn.Tanh(), X, partitioner=DelegationSpec("test_upstream_defects.Derived"))
    assert [each.id for each in plan_of(program).delegates] == ["test_upstream_defects.Derived"]


def test_equal_data_of_several_keys_are_stored_once_where_all_alignments_are_kept():
    program = lowered(nn.Tanh(), X, partitioner=DelegationSpec("test_upstream_defects.Derived"))
    at = program.buffer.index(b"the same bytes")
    assert program.buffer.count(b"the same bytes") == 1
    segments = program.executorch_program.program_file.program.segments
    (offset,) = [segment.offset for segment in segments if segment.size == len(b"the same bytes")]
    assert offset % math.lcm(24, 512) == 0 and at % 16 == 0


# -- Recipes ----------------------------------------------------------------------------------------


def test_combined_recipes_keep_their_manager_passes_and_stages():
    stages = [StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM, StageType.TO_EXECUTORCH]
    one = ExportRecipe(lowering_recipe=LoweringRecipe(edge_manager_transform_passes=[lambda manager: manager]))
    other = ExportRecipe(pipeline_stages=stages, lowering_recipe=one.lowering_recipe)
    combined = ExportRecipe.combine([one, other])
    assert combined.pipeline_stages == stages
    assert len(combined.lowering_recipe.edge_manager_transform_passes) == 2
