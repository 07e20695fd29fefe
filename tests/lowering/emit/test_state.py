"""State and input mutation: kept between calls, apart between methods, shared when declared."""

from __future__ import annotations

import copy

import torch

from rules_executorch.lowering.emit.config import EmitConfig, MemoryConfig
from rules_executorch.lowering.emit.emit import emit_program
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.write import pte_bytes
from support.emission import assert_same, check, edge, emit
from support.modules import Apply
from support.official_runtime import run_methods

x = torch.randn(3)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        self.total.add_(a)
        return self.total * 2


class Cache(torch.nn.Module):
    """A buffer of which each call replaces one row, then reads all."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))

    def forward(self, a: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        self.rows.index_put_((row,), a)
        return self.rows.sum(0)


class Swap(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.ones(3))
        self.register_buffer("right", torch.full((3,), 5.0))

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = self.left.clone()
        self.left.copy_(self.right)
        self.right.copy_(old)
        return self.left + a, old


class ReadAfter(torch.nn.Module):
    """Returns the value that a buffer had, and a view of it, beside the one that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(4.0))

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        old = self.total.clone()
        self.total.mul_(a)
        return old, old.view(2, 2), self.total, old + self.total


def memory_sizes(emitted: object) -> list[tuple[int, ...]]:
    return [plan.non_const_buffer_sizes for plan in emitted.program_file.program.execution_plan]


def test_state_starts_with_its_initial_value_and_is_kept() -> None:
    check(Counter(), (x,), (x,), (x,))


def test_a_new_value_is_written_straight_to_its_place() -> None:
    emitted = check(Counter(), (x,), (x,))
    plan = emitted.program_file.program.execution_plan[0]
    assert [str(operator) for operator in plan.operators] == ["aten::add.out", "aten::mul.Scalar_out"]


def test_rows_of_a_cache() -> None:
    runs = [(torch.full((1, 3), float(i)), torch.tensor([i % 4])) for i in range(6)]
    emitted = check(Cache(), *runs)
    operators = [str(operator) for operator in emitted.program_file.program.execution_plan[0].operators]
    assert "aten::index_put_" in operators and not {"aten::copy_", "aten::index_put.out"} & set(operators)


def test_an_update_reads_the_old_value_elsewhere() -> None:
    class Shift(Cache):
        def forward(self, a: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
            old = self.rows * 1
            self.rows.index_put_((row,), self.rows[3:] + a)
            return self.rows - old

    check(Shift(), *[(torch.full((1, 3), float(i)), torch.tensor([i % 4])) for i in range(5)])


def test_an_update_whose_old_value_is_returned() -> None:
    class Both(Cache):
        def forward(self, a: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, ...]:
            old = self.rows.clone()
            self.rows.index_put_((row,), a)
            return old, self.rows.view(-1)

    check(Both(), *[(torch.full((1, 3), float(i)), torch.tensor([i % 4])) for i in range(5)])


def test_buffers_that_swap() -> None:
    check(Swap(), (x,), (x,), (x,))


def test_old_values_outlive_the_write_back() -> None:
    check(ReadAfter(), (torch.tensor([2.0, 1.0, 3.0, 0.5]),), (torch.tensor(3.0).expand(4).clone(),))


def test_an_input_that_is_mutated_is_the_callers() -> None:
    def mutate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(b)
        return a + 1

    emitted = emit(Apply(mutate), (x.clone(), torch.tensor(3.0)))
    from support.official_runtime import run_methods_here

    given = torch.tensor([1.0, 2.0, 3.0])
    ((output,),) = run_methods_here(pte_bytes(emitted), [("forward", [given, torch.tensor(3.0)])])
    assert torch.equal(given, torch.tensor([3.0, 6.0, 9.0])) and torch.equal(output, given + 1)


class TwoCounters(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.tensor([1.0, 1.0, 1.0]))
        self.register_buffer("second", torch.tensor([100.0, 100.0, 100.0]))
        self.register_buffer("shared", torch.tensor([7.0]))

    def count_first(self, a: torch.Tensor) -> torch.Tensor:
        self.first.add_(a)
        return self.first.clone()

    def count_second(self, a: torch.Tensor) -> torch.Tensor:
        self.second.sub_(a)
        return self.second.clone()

    def fill(self, a: torch.Tensor) -> torch.Tensor:
        self.shared.add_(a.sum())
        return self.shared * 1

    def extend(self, a: torch.Tensor) -> torch.Tensor:
        self.shared.mul_(a.sum())
        return self.shared + 1


def _methods(module: torch.nn.Module, names: list[str]) -> dict[str, torch.export.ExportedProgram]:
    programs = {}
    for name in names:
        one = copy.deepcopy(module)
        one.forward = getattr(one, name)
        programs[name] = edge(one, (x,))
    return programs


def test_state_of_one_method_survives_calls_of_another() -> None:
    emitted = emit_program(_methods(TwoCounters(), ["count_first", "count_second"]))
    calls = [("count_first", (x,)), ("count_second", (x,)), ("count_first", (x,)), ("count_second", (x,))]
    results = run_methods(pte_bytes(emitted), calls)
    one = torch.ones(3)
    expected = [one + x, 100 * one - x, one + 2 * x, 100 * one - 2 * x]
    for (output,), wanted in zip(results, expected):
        torch.testing.assert_close(output, wanted)


def test_state_is_shared_by_name_when_declared() -> None:
    a = torch.tensor([1.0, 2.0, 3.0])
    calls = [("extend", (a,)), ("fill", (a,)), ("extend", (a,)), ("fill", (a,))]
    programs = _methods(TwoCounters(), ["fill", "extend"])
    shared = emit_program(programs, config=EmitConfig(memory=MemoryConfig(share_mutable_buffers=True)))
    assert [float(o[0]) for o in run_methods(pte_bytes(shared), calls)] == [43.0, 48.0, 289.0, 294.0]
    apart = emit_program(programs)
    assert [float(o[0]) for o in run_methods(pte_bytes(apart), calls)] == [43.0, 13.0, 253.0, 19.0]
    assert memory_sizes(shared)[0][2] < memory_sizes(apart)[1][2]


def test_state_of_zeros_takes_the_room_of_one() -> None:
    class Zeros(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for index in range(8):
                self.register_buffer(f"b{index}", torch.zeros(1000))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            for index in range(8):
                getattr(self, f"b{index}").add_(a)
            return self.b0 + self.b7

    emitted = check(Zeros(), (torch.tensor(1.0),), (torch.tensor(2.0),))
    assert len(pte_bytes(emitted)) < 2 * 4000 + 4000


def test_a_buffer_that_nobody_mutates_is_a_constant() -> None:
    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(3))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return self.table + a

    emitted = check(Table(), (x,))
    tensors = [v for v in emitted.program_file.program.execution_plan[0].values if isinstance(v, schema.Tensor)]
    assert sum(t.data_buffer_idx > 0 and t.allocation_info is None for t in tensors) == 1


def test_names_of_state_are_kept_on_request() -> None:
    emitted = emit(Counter(), (x,), config=EmitConfig(emit_mutable_buffer_names=True))
    infos = [getattr(v, "extra_tensor_info", None) for v in emitted.program_file.program.execution_plan[0].values]
    assert [info.fully_qualified_name for info in infos if info] == ["total"]
    assert_same(emitted, Counter(), [("forward", (x,))])
