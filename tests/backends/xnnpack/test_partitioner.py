"""What the partitioner takes, what it leaves and why, and that weights are stored once."""

from __future__ import annotations

import pytest
import torch
from rules_executorch.backends.xnnpack import BACKEND_ID, XnnpackPartitioner
from rules_executorch.lowering import to_edge, to_edge_transform_and_lower
from rules_executorch.lowering.delegation.backend import CompileSpec, DelegationSpec
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.format.read import read_pte
from support.official_runtime import run_methods
from support.xnnpack import check, info, kinds_of, lower, module
from torch import nn

X = torch.randn(2, 6)


def test_what_is_left_behind_has_a_reason_and_a_source() -> None:
    found = info(check(module(lambda x: torch.where(x.exp() > 1, x, x.sin())), (X,), whole=False))
    reasons = {each.operator: each.reason for each in found.left_behind}
    assert "no such operator" in reasons["aten.gt.Scalar"]
    assert "no such operator" in reasons["aten.where.self"]
    assert all(each.source for each in found.left_behind)
    assert "1 aten.gt.Scalar: XNNPACK has no such operator" in found.get_reasons()


def test_partitions_that_gain_less_than_their_border_costs_are_dropped() -> None:
    small = info(lower(module(lambda x: x.exp() + 1), (X,), cost_rule=True))
    assert (small.num_delegated_subgraphs, small.num_non_delegated_nodes) == (0, 2)
    assert "border" in small.left_behind[0].reason
    large = info(lower(module(lambda x: x.exp() + 1), (torch.randn(64, 64),), cost_rule=True))
    assert (large.num_delegated_subgraphs, large.num_non_delegated_nodes) == (1, 0)
    product = info(lower(nn.Linear(6, 2), (X,), cost_rule=True))
    assert product.num_delegated_subgraphs == 1


def test_views_alone_are_not_worth_a_call() -> None:
    found = info(lower(module(lambda x: x.mT.reshape(-1, 2)), (torch.randn(64, 64),), cost_rule=True))
    assert found.num_delegated_subgraphs == 0


def test_per_op_makes_a_partition_of_every_node() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.LayerNorm(4))
    found = info(check(model, (X,), whole=False, per_op=True))
    assert (found.num_delegated_subgraphs, found.num_non_delegated_nodes) == (3, 0)


def test_small_partitions_can_be_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    assert info(lower(model, (X,), min_nodes=2)).num_delegated_subgraphs == 1
    found = info(lower(model, (X,), min_nodes=3))
    assert found.num_delegated_subgraphs == 0
    assert "less than 3 nodes" in found.left_behind[0].reason


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 6)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(self.table(tokens).tanh(), self.table.weight)


def test_a_weight_that_is_used_outside_too_is_a_constant_inside() -> None:
    found = info(check(Tied(), (torch.tensor([[1, 2, 9]]),), whole=False))
    assert found.by_operator["aten.linear.default"].delegated == 1
    assert found.by_operator["aten.embedding.default"].not_delegated == 1


def test_methods_and_partitions_share_their_weights() -> None:
    layer = nn.Linear(64, 64)
    one, two = module(lambda x: layer(x)), module(lambda x: layer(torch.where(layer(x) > 0, x, -x)))
    inputs = (torch.randn(3, 64),)
    programs = {name: torch.export.export(m, inputs) for name, m in (("one", one), ("two", two))}
    manager = to_edge_transform_and_lower(programs, partitioner=XnnpackPartitioner())
    pte = manager.to_executorch().buffer
    assert len(pte) < 1.5 * 64 * 64 * 4
    with torch.no_grad():
        for method, model in (("one", one), ("two", two)):
            ((got,),) = run_methods(pte, [(method, inputs)])
            torch.testing.assert_close(got, model(*inputs), rtol=1e-4, atol=1e-4)


def test_constants_are_named_by_their_bytes_and_no_bytes_twice() -> None:
    layer = nn.Linear(6, 6)
    pte = lower(nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(6, 6)), (X,)).to_executorch().buffer
    named = read_pte(pte).program.named_data
    assert len(named) == len({entry.key for entry in named}) == 4


def test_bodies_of_control_flow_are_partitioned() -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.exp() @ x.exp().mT, -1)

    model = module(lambda flag, x: torch.cond(flag, body, lambda x: x.sin() @ x.cos().mT, (x,)))
    manager = check(model, (torch.tensor(True), X), (torch.tensor(False), X), whole=False)
    assert info(manager).num_delegated_subgraphs == 2


def test_state_stays_with_the_program() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)
            self.register_buffer("total", torch.zeros(2, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(self.linear(x))
            return self.total * 2

    check(Counter(), (X,), (X + 1,), (X - 1,), whole=False)


def test_a_whole_graph_that_xnnpack_cannot_compute_is_an_error_with_its_node() -> None:
    program = to_edge(torch.export.export(module(lambda x: x.exp().sort().values), (X,)))
    message = "(?s)XnnpackBackend does not take .*node: .*1. delegate with XnnpackPartitioner"
    with pytest.raises(LoweringError, match=message):
        program.to_backend(DelegationSpec(BACKEND_ID))


def test_an_option_that_does_not_exist_is_refused() -> None:
    program = to_edge(torch.export.export(nn.Linear(6, 2), (X,)))
    with pytest.raises(LoweringError, match="no option 'threads'"):
        program.to_backend(DelegationSpec(BACKEND_ID, [CompileSpec("threads", b"2")]))


def test_inputs_and_constants_can_be_outputs() -> None:
    constant = torch.ones(2)
    check(module(lambda x, y: (x, x.exp(), x.exp(), y + constant, x.clone())), (X, torch.ones(2)), whole=False)


def test_activations_are_part_of_the_node_before() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4), nn.Hardtanh(), nn.Linear(4, 4))
    check(model, (X,))
    assert kinds_of(model, (X,)) == {"FullyConnected": 3}


def test_a_transposed_operand_of_a_product_is_no_copy() -> None:
    inputs = (torch.randn(2, 3, 4), torch.randn(2, 5, 4))
    assert kinds_of(module(lambda a, b: a @ b.mT), inputs) == {"BatchMatrixMultiply": 1}


def test_chains_of_views_are_one_view_and_the_same_work_is_done_once() -> None:
    model = module(lambda x: x.view(3, 4).reshape(12).view(2, 6).exp() + x.exp().mT.mT.exp() + x.exp())
    assert kinds_of(model, (X,)) == {"Exp": 2, "Add": 2}


def test_the_same_program_gives_the_same_bytes() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3), nn.LayerNorm(3))
    inputs = (torch.randn(1, 3, 6, 6),)
    assert lower(model, inputs).to_executorch().buffer == lower(model, inputs).to_executorch().buffer


