"""The sets of kernels are the official runtime's, and functional operators are matched to them by schema."""

from __future__ import annotations

import pytest
import torch
from support import runtime_operators

from rules_executorch.lowering.operators import llm, named_operator_set, out_variant, quantized, stock

aten = torch.ops.aten


@pytest.mark.parametrize("name", ["stock", "quantized"])
def test_a_set_is_what_the_official_runtime_registers(name: str) -> None:
    pytest.importorskip("executorch")
    assert named_operator_set(name).names == set(runtime_operators.registered_by(runtime_operators.LIBRARIES[name]))


def test_sets_are_disjoint_and_add_up() -> None:
    assert len(stock.names) == 240
    assert len((stock | quantized | llm).names) == len(stock.names) + len(quantized.names) + len(llm.names)


def test_an_unknown_set_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(LookupError, match="llm, quantized, stock"):
        named_operator_set("stok")


@pytest.mark.parametrize(
    ("functional", "out"),
    [
        (aten.add.Tensor, aten.add.out), (aten.mean.dim, aten.mean.out), (aten.any.default, aten.any.all_out),
        (aten.slice_copy.Tensor, aten.slice_copy.Tensor_out), (aten.max.dim, aten.max.dim_max),
        (aten.topk.default, aten.topk.values), (aten.where.self, aten.where.self_out),
        (aten.full.default, aten.full.out),
        (aten.split_copy.Tensor, aten.split_copy.Tensor_out), (aten.linear.default, aten.linear.out),
        (aten.arange.start_step, aten.arange.start_out), (aten.sum.dim_IntList, aten.sum.IntList_out),
    ],
)  # fmt: skip
def test_the_out_variant_differs_in_its_results_only(functional: torch._ops.OpOverload,
    out: torch._ops.OpOverload) -> None:
    assert out_variant(functional) is out


@pytest.mark.parametrize("op",
    [aten.add_.Tensor, aten.view.default, aten.sym_size.int, aten._local_scalar_dense.default])
def test_operators_that_mutate_alias_or_return_no_tensor_have_none(op: torch._ops.OpOverload) -> None:
    assert out_variant(op) is None


def test_an_out_variant_takes_its_operators_arguments_in_their_order() -> None:
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        packet = getattr(aten, schema.name.removeprefix("aten::"), None)
        op = getattr(packet, schema.overload_name or "default", None)
        out = out_variant(op) if op is not None else None
        if out is None:
            continue
        shared = [a.name for a in out._schema.arguments if not a.is_out]
        assert shared == [a.name for a in schema.arguments if a.name in shared]


def test_memory_layout_operators_run_by_the_runtimes_own() -> None:
    assert stock.kernel(aten._to_copy.default) == "dim_order_ops::_to_dim_order_copy.out"
    assert stock.kernel(aten.clone.default) == "dim_order_ops::_clone_dim_order.out"
    assert stock.kernel(aten._local_scalar_dense.default) == "aten::_local_scalar_dense"
    assert stock.kernel(aten.sort.default) is None
    assert "aten::sort.values" not in stock


def test_near_names_are_found() -> None:
    assert "aten::topk.values" in stock.nearest("aten::topk")
