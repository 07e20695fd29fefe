"""cond, while_loop, map and scan, alone, in sequence and nested, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from functorch.experimental.control_flow import map as torch_map
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim

from support.emission import check
from support.modules import Apply

x = torch.randn(3, 4)
RUNS = [(x.abs(),), (-x.abs(),), (x.abs(),)]


def test_both_branches() -> None:
    check(Apply(lambda a: torch.cond(a.sum() > 0, lambda a: a + 1, lambda a: a * 2, (a,))), *RUNS)


def test_two_conds_in_a_row_with_operators_around() -> None:
    def forward(a: torch.Tensor) -> torch.Tensor:
        first = torch.cond(a.sum() > 0, lambda a: (a + 1).relu() * 3, lambda a: (a * 2).neg() - 1, (a,))
        middle = first.sigmoid() + a
        left, right = (lambda b, c: (b * c).neg() - 1), (lambda b, c: b.neg() + c.exp())
        second = torch.cond(middle.sum() > 4, left, right, (middle, first))
        return second * 2 + first - middle

    check(Apply(forward), *RUNS)


def test_branches_that_return_an_operand_a_view_a_constant_or_one_value_twice() -> None:
    def left(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = a + 1
        return a.clone(), b.view(4, 3), torch.zeros(2), b, b.clone()

    def right(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a * 2, (a - 1).view(4, 3), torch.ones(2), a.neg(), a.exp()

    check(Apply(lambda a: torch.cond(a.sum() > 0, left, right, (a,))), *RUNS)


def test_nested_conds() -> None:
    def outer(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.max() > 2, lambda a: a - 2, lambda a: a + 10, (a,)) * 2

    check(Apply(lambda a: torch.cond(a.sum() > 0, outer, lambda a: a.neg(), (a,)) + a), *RUNS, (x.abs() + 5,))


def test_a_cond_on_a_size() -> None:
    module = Apply(lambda a: torch.cond(a.shape[0] > 4, lambda a: a * 2, lambda a: a - 1, (a,)))
    check(module, (torch.randn(3, 2),), (torch.randn(6, 2),), dynamic_shapes=(({0: Dim("n", min=2, max=8)},),))


class Loop(torch.nn.Module):
    def forward(self, n: torch.Tensor, a: torch.Tensor) -> Any:
        def condition(i: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
            return i < n

        def body(i: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, (a * 2 + 1).relu() - 0.5

        steps, result = while_loop(condition, body, (torch.zeros((), dtype=torch.int64), a.clone()))
        return steps, result + a


def test_while_loop_runs_as_often_as_it_should_none_included() -> None:
    check(Loop(), *[(torch.tensor(n), x) for n in (3, 0, 1, 5)])


def test_a_cache_that_a_loop_fills_is_updated_in_place() -> None:
    class Fill(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> Any:
            def body(i: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return i + 1, rows.index_put((i,), rows.sum(0, keepdim=True) + 1)

            start = torch.zeros(1, dtype=torch.int64)
            return while_loop(lambda i, rows: (i < n).all(), body, (start, torch.zeros(5, 3)))

    emitted = check(Fill(), *[(torch.tensor([n]),) for n in (4, 0, 5)])
    operators = [str(operator) for operator in emitted.program_file.program.execution_plan[0].operators]
    assert "aten::index_put_" in operators and "aten::index_put.out" not in operators


def test_while_loop_with_a_number_carried() -> None:
    class Count(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> Any:
            return while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2), (0, a.clone()))[1]

    check(Count(), (x,), (x,))


def test_while_loop_that_swaps_what_it_carries() -> None:
    class Fibonacci(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> Any:
            def body(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return i + 1, b.clone(), a + b

            one, zero = torch.ones(2), torch.zeros(2)
            return while_loop(lambda i, a, b: i < n, body, (torch.zeros((), dtype=torch.int64), zero, one))

    check(Fibonacci(), *[(torch.tensor(n),) for n in (7, 1, 0)])


def test_a_cond_in_a_loop() -> None:
    class Collatz(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> Any:
            def body(n: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                half, triple = (lambda n: torch.div(n, 2, rounding_mode="floor")), (lambda n: n * 3 + 1)
                return torch.cond((n % 2 == 0).all(), half, triple, (n,)), steps + 1

            return while_loop(lambda n, steps: (n != 1).all(), body, (n.clone(), torch.zeros(1, dtype=torch.int64)))

    check(Collatz(), *[(torch.tensor([n]),) for n in (6, 1, 27)])


def test_map_over_several_tensors_with_several_results() -> None:
    class Map(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            c = a.sum(0)
            return torch_map(lambda xs, c: (xs[0] * c + xs[1], xs[1].relu()), (a, b), c)

    check(Map(), (x, x + 1), (x * 2, x))


def test_map_before_and_after_other_operators() -> None:
    class Map(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> Any:
            once = torch_map(lambda row, c: (row.exp() - c).relu(), a + 1, a[0])
            return torch_map(lambda row, c: row * c, once * 2, a[1]).view(-1).neg()

    check(Map(), *RUNS)


def test_scan_with_and_without_results_per_step() -> None:
    class Scan(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> Any:
            total, products = scan(lambda c, row: (c + row, c * row), a[0].clone(), a)
            return total * 2, products, a

    check(Scan(), *RUNS)


def test_a_recurrent_network_as_a_scan() -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = torch.nn.Linear(8, 4)

        def forward(self, a: torch.Tensor) -> Any:
            def step(hidden: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                new = torch.tanh(self.cell(torch.cat([hidden, row], -1)))
                return new, new.clone()

            return scan(step, torch.zeros(2, 4), a)

    check(Recurrent(), (torch.randn(5, 2, 4),), (torch.randn(5, 2, 4),))


def test_what_is_made_for_a_loop_is_not_copied_into_it() -> None:
    def program(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own, kept = a * 2, a + 1
        loop = while_loop(lambda i, t, u: i < 3, lambda i, t, u: (i + 1, t * a, u - t), (torch.tensor(0), own, kept))
        return loop[1], loop[2], kept

    emitted = check(Apply(program), (x,), (-x,), (x,))
    plan = emitted.program_file.program.execution_plan[0]
    calls = [str(plan.operators[i.op_index]) for i in plan.chains[0].instructions if hasattr(i, "op_index")]
    assert calls.count("dim_order_ops::_clone_dim_order.out") == 2 + 1  # the counter, `kept`; then `u - t` to its place


def test_a_loop_that_begins_with_one_tensor_twice() -> None:
    def program(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both = a * 2
        return while_loop(lambda i, t, u: i < 3, lambda i, t, u: (i + 1, u + 1, t * 2), (torch.tensor(0), both, both))

    check(Apply(program), (x,), (-x,))
