"""Edge programs say what runs fast: no idle copies, linear kept, numbers as numbers, constants computed."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.edge_programs import Function, calls, edge_of
from torch.export import Dim

from rules_executorch.lowering.edge.to_edge import to_edge_program
from rules_executorch.lowering.edge.verify import verify_edge_program
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.operators import quantized, stock

aten = torch.ops.aten


def x(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "function",
    [
        lambda t: F.dropout(t, 0.5, training=False), lambda t: t.to(torch.float32), lambda t: t[:],
        lambda t: t.expand(2, 3),
        lambda t: t.contiguous(), lambda t: t.view(2, 3), lambda t: t.clone(), lambda t: t.detach(),
        lambda t: t.repeat(1, 1),
        lambda t: torch.cat([t, t.new_zeros(0)]), lambda t: t.transpose(0, 1).t(),
        lambda t: t.permute(1, 0).permute(1, 0),
        lambda t: t.t().contiguous().t(), lambda t: torch.cat([t]),
    ],
)  # fmt: skip
def test_what_changes_nothing_is_no_operator(function: object) -> None:
    assert calls(edge_of(lambda t: function(t) + 1, x(2, 3))) == ["add.Scalar"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda t: t + 1, "add.Scalar"), (lambda t: t - 1, "sub.Scalar"), (lambda t: 2 * t, "mul.Scalar"),
        (lambda t: t / 2, "div.Scalar"),
        (lambda t: torch.div(t, 2, rounding_mode="floor"), "div.Scalar_mode"), (lambda t: 1 - t, "rsub.Scalar"),
        (lambda t: t > 0, "gt.Scalar"),
        (lambda t: t**2, "pow.Tensor_Scalar"), (lambda t: 2.0**t, "pow.Scalar"), (lambda t: t.add_(1), "add.Scalar"),
    ],
)  # fmt: skip
def test_numbers_stay_numbers(function: object, expected: str) -> None:
    assert calls(edge_of(lambda t: function(t * 1.5), x(2, 3)))[1:] == [expected]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("function", "weight"),
    [
        (lambda t, w, b: F.linear(t, w, b), (4, 3)), (lambda t, w, b: torch.addmm(b, t, w.t()), (4, 3)),
        (lambda t, w, b: torch.addmm(b, t, w.transpose(0, 1)), (4, 3)),
    ],
)  # fmt: skip
def test_linear_stays_linear(function: object, weight: tuple[int, ...]) -> None:
    assert calls(edge_of(function, x(2, 3), x(*weight), x(4))) == ["linear.default"]  # type: ignore[arg-type]


def test_a_product_with_a_transposed_matrix_is_linear() -> None:
    assert calls(edge_of(lambda t, w: t @ w.t(), x(2, 3), x(4, 3))) == ["linear.default"]


def test_addmm_is_a_product_and_a_sum() -> None:
    assert calls(edge_of(lambda b, t, w: torch.addmm(b, t, w), x(4), x(2, 3), x(3, 4))) == ["mm.default", "add.Tensor"]


class TestFolding:
    def test_what_depends_on_constants_only_is_computed(self) -> None:
        module = Function(lambda m, t: t + torch.arange(3) * m.scale.sqrt(), scale=torch.rand(3))
        edge = edge_of(module, x(2, 3))
        assert calls(edge) == ["add.Tensor"]
        torch.testing.assert_close(edge.module()(x(2, 3)), module(x(2, 3)))
        assert "scale" not in edge.state_dict

    def test_it_does_not_make_the_program_larger(self) -> None:
        edge = edge_of(Function(lambda m, t: t + m.row.expand(1000, 100), row=torch.rand(1, 100)), x(1000, 100))
        assert calls(edge) == ["expand_copy.default", "add.Tensor"]

    def test_written_buffers_are_no_constants(self) -> None:
        edge = edge_of(Function(lambda m, t: (m.state.add_(1), t + m.state * 2)[1], state=torch.zeros(3)), x(3))
        assert calls(edge) == ["add.Scalar", "mul.Scalar", "add.Tensor"]

    def test_values_that_a_checkpoint_will_supply_are_not_needed(self) -> None:
        exported = torch.export.export(Function(lambda m, t: t + m.scale * 2, scale=torch.rand(3)), (x(3),))
        exported.state_dict["scale"] = exported.state_dict["scale"].to("meta")
        assert calls(to_edge_program(exported)) == ["mul.Scalar", "add.Tensor"]

    def test_random_numbers_are_drawn_on_the_device(self) -> None:
        assert "rand.default" in calls(edge_of(lambda t: t + torch.rand(3), x(3)))

    def test_quantized_weights_stay_quantized(self) -> None:
        pytest.importorskip("torchao")
        import torch.ao.quantization.fx._decomposed  # noqa: F401  (registers the operators)

        def program(m: Function, t: torch.Tensor) -> torch.Tensor:
            weight = torch.ops.quantized_decomposed.dequantize_per_tensor(m.weight, 0.1, 0, -128, 127, torch.int8)
            return F.linear(t, weight)

        module = Function(program, weight=torch.ones(4, 3, dtype=torch.int8))
        edge = edge_of(module, x(2, 3), verify=False, operators=stock | quantized)
        assert calls(edge) == ["dequantize_per_tensor.default", "linear.default"]
        verify_edge_program(edge, stock | quantized)

    def test_a_known_condition_leaves_no_choice(self) -> None:
        edge = edge_of(lambda t: torch.where(torch.ones(3, dtype=torch.bool), t * 2, t * 3), x(2, 3))
        assert calls(edge) == ["mul.Scalar"]

    @pytest.mark.parametrize("transposed", [False, True])
    def test_batch_norm_becomes_part_of_the_convolution_before_it(self, transposed: bool) -> None:
        convolution = torch.nn.ConvTranspose2d(3, 4, 3) if transposed else torch.nn.Conv2d(3, 4, 3, groups=1)
        module = torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(4)).eval()
        for tensor in (module[1].running_mean, module[1].running_var, module[1].weight.data, module[1].bias.data):
            tensor.uniform_(0.5, 2)
        edge = edge_of(module, x(1, 3, 6, 6))
        assert calls(edge) == ["convolution.default"]
        torch.testing.assert_close(edge.module()(x(1, 3, 6, 6)), module(x(1, 3, 6, 6)))


class TestPreservedOperators:
    def test_they_are_kept_whole(self) -> None:
        edge = edge_of(lambda t: F.hardswish(F.silu(t)), x(3), preserve_ops=[aten.silu.default], verify=False)
        assert "silu.default" in calls(edge) and "hardswish.default" not in calls(edge)

    def test_a_filter_may_refuse_single_nodes(self) -> None:
        def keep(node: torch.fx.Node) -> bool:
            return node.meta["val"].shape[0] == 3

        edge = edge_of(
            lambda a, b: (F.silu(a), F.silu(b)), x(3), x(4), preserve_ops=[aten.silu.default], keep=keep, verify=False
        )
        assert calls(edge).count("silu.default") == 1 and calls(edge).count("sigmoid.default") == 1

    def test_a_second_conversion_decomposes_what_was_kept(self) -> None:
        edge = edge_of(lambda t: F.silu(t), x(3), preserve_ops=[aten.silu.default], verify=False)
        again = to_edge_program(edge)
        verify_edge_program(again)
        torch.testing.assert_close(again.module()(x(3)), F.silu(x(3)))


def test_conversion_is_idempotent() -> None:
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    edge = edge_of(module, x(1, 4, 8))
    again = to_edge_program(edge)
    assert calls(again) == calls(edge)
    assert str(again.graph_signature) == str(edge.graph_signature)


def test_a_second_conversion_keeps_debug_handles() -> None:
    edge = edge_of(lambda t: F.silu(t * 2) + 1, x(3), preserve_ops=[aten.silu.default], verify=False)
    before = {node.name: node.meta["debug_handle"] for node in edge.graph.nodes if node.op == "call_function"}
    again = to_edge_program(edge)
    after = {node.name: node.meta["debug_handle"] for node in again.graph.nodes if node.op == "call_function"}
    assert after.items() >= {n: h for n, h in before.items() if not n.startswith("silu")}.items()
    assert after["sigmoid_default"] == before["silu_default"]


def test_a_program_that_is_functional_already_keeps_its_mutations() -> None:
    exported = torch.export.export(Function(lambda m, t: m.state.add_(t), state=torch.zeros(3)), (x(3),))
    edge = to_edge_program(exported.run_decompositions())
    assert [spec.kind.name for spec in edge.graph_signature.output_specs] == ["BUFFER_MUTATION", "USER_OUTPUT"]


def test_every_node_keeps_its_source_and_a_debug_handle() -> None:
    edge = edge_of(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), x(1, 4, 8))
    nodes = [node for node in edge.graph.nodes if node.op == "call_function"]
    assert all(isinstance(node.meta["debug_handle"], int) and node.meta["stack_trace"] for node in nodes)
    assert len({node.meta["debug_handle"] for node in nodes}) > 10


def test_unused_parameters_leave_the_program() -> None:
    edge = edge_of(Function(lambda m, t: t + m.used, used=torch.ones(3), unused=torch.ones(100)), x(3))
    assert list(edge.state_dict) == ["used"]


class TestDynamicSizes:
    def test_sizes_are_computed_once(self) -> None:
        edge = edge_of(
            lambda t: torch.zeros(t.shape[0], 2).sum(1).expand(4, t.shape[0]).sum(0) + torch.ones(t.shape[0]),
            x(4, 3),
            dynamic_shapes=({0: Dim("n", min=2, max=9)},),
        )
        assert calls(edge).count("sym_size.int") == 1

    @settings(max_examples=25, deadline=None)
    @given(st.integers(4, 20),
        st.sampled_from(["a * b", "a + b - 1", "a // 2", "(a + 2) // 3", "max(a, b)", "min(a, b)", "a % 3 + 2",
        "a * a"]))
    def test_sizes_of_random_expressions(self, size: int, expression: str) -> None:
        def program(m: Function, s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            length = eval(expression, {"a": s.shape[0], "b": t.shape[0], "max": torch.sym_max, "min": torch.sym_min})
            return torch.zeros(length, 2) + s.sum() + t.sum()

        module = Function(program)
        dims = {0: Dim("a", min=4, max=20)}, {0: Dim("b", min=4, max=20)}
        edge = edge_of(module, x(8), x(9), dynamic_shapes=dims)
        inputs = x(size), x(24 - size)
        torch.testing.assert_close(edge.module()(*inputs), module(*inputs))

    def test_a_dimension_with_a_factor_is_solved_for(self) -> None:
        half = Dim("half", min=2, max=8)
        edge = edge_of(lambda t: t.view(2, t.shape[0] // 2), x(8), dynamic_shapes=({0: 2 * half},))
        torch.testing.assert_close(edge.module()(x(12)), x(12).view(2, 6))

    def test_what_would_hold_for_the_example_only_is_an_error(self) -> None:
        with pytest.raises(LoweringError, match="holds only for sizes") as error:
            edge_of(lambda t: F.adaptive_max_pool2d(t, (2, 2)), x(1, 1, 8, 8),
                dynamic_shapes=({2: Dim("h", min=2, max=16)},))
        assert "from:" in str(error.value) and "1. " in str(error.value)


class TestControlFlow:
    def test_bodies_are_edge_programs_too(self) -> None:
        def program(m: Function, t: torch.Tensor) -> torch.Tensor:
            return torch.cond(t.sum() > 0, lambda t: (F.silu(t).view(-1),), lambda t: ((t + 1).t().reshape(-1),),
                (t,))[0]

        module = Function(program)
        edge = edge_of(module, x(2, 3))
        for sign in (1, -1):
            inputs = sign * x(2, 3).abs()
            torch.testing.assert_close(edge.module()(inputs), module(inputs))

    def test_temporaries_of_a_body_may_be_written(self) -> None:
        def body(t: torch.Tensor) -> tuple[torch.Tensor]:
            y = t * 2
            y[0].add_(1)
            return (y,)

        module = Function(lambda m, t: torch.cond(t.sum() > 0, body, lambda t: (t * 3,), (t,))[0])
        edge = edge_of(module, x(2, 3).abs())
        torch.testing.assert_close(edge.module()(x(2, 3).abs()), module(x(2, 3).abs()))


    def test_channels_last_operands_are_converted_at_the_door(self) -> None:
        module = Function(lambda m, t: torch.cond(t.sum() > 0, lambda t: (t * 2,), lambda t: (t + 1,), (t,))[0])
        inputs = x(1, 3, 4, 4).to(memory_format=torch.channels_last)
        edge = edge_of(module, inputs)
        assert "clone.default" in calls(edge)
        torch.testing.assert_close(edge.module()(inputs), module(inputs))


def test_sizes_and_numbers_that_data_decide_are_each_their_own() -> None:
    def program(module: torch.nn.Module, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a[a > 0].relu(), b[b > 0].relu(), a * a[0].item(), b * b[0].item()

    module, inputs = Function(program), (torch.tensor([1.0, -2.0, 3.0]), torch.tensor([5.0, 6.0, 7.0]))
    torch.testing.assert_close(edge_of(module, *inputs).module()(*inputs), module(*inputs))


@pytest.mark.parametrize("layers", [2])
def test_equal_layers_are_decomposed_once(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from rules_executorch.lowering.edge import conversion

    recorded = []
    original = conversion.record
    monkeypatch.setattr(conversion, "record", lambda *args: recorded.append(args[0]) or original(*args))
    counts = []
    for depth in (layers, 4 * layers):
        recorded.clear()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        edge_of(torch.nn.TransformerEncoder(copy.deepcopy(layer), depth, enable_nested_tensor=False), x(1, 4, 8))
        counts.append(len(recorded))
    assert counts[0] == counts[1]
