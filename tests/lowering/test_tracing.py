"""Entry points become programs; what cannot be exported is refused with the model's line and the ways out."""

from __future__ import annotations

import pytest
import torch
from rules_executorch.lowering import LoweringError, Method, Model, export_method
from rules_executorch.lowering.errors import source_line
from torch import nn
from torch.export import Dim


class TwoEntries(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.out = nn.Linear(4, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids)

    def encode(self, ids: torch.Tensor) -> torch.Tensor:
        return self(ids) + self.forward(ids)

    def decode(self, hidden: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return self.out(hidden) * scale


IDS = torch.tensor([1, 2])


def two_entries() -> Model:
    return Model(
        TwoEntries(),
        {
            "encode": Method((IDS,)),
            "decode": Method((torch.zeros(1, 4),), {"scale": torch.tensor(2.0)}),
            "look_up": Method((IDS,)),
            "named": Method((IDS,), function="encode"),
        },
    )


@pytest.mark.parametrize("name", ["encode", "decode", "look_up", "named"])
def test_each_entry_point_runs_its_own_python_method(name: str):
    model = two_entries()
    method = model.methods[name]
    function = {"look_up": "forward", "named": "encode"}.get(name, name)
    expected = getattr(model.module, function)(*method.example_inputs, **method.example_kwargs)
    program = export_method(model, name)
    torch.testing.assert_close(program.module()(*method.example_inputs, **method.example_kwargs), expected)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.GRU(4, 4), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class Remembering(Tagger):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2
        return super().forward(x)


def test_recurrent_layers_are_no_warning_and_forgotten_buffers_are_one(recwarn: pytest.WarningsRecorder) -> None:
    export_method(Model(Tagger(), {"forward": Method((torch.zeros(2, 1, 4),))}), "forward")
    assert not [w for w in recwarn if "assigned during export" in str(w.message)]
    export_method(Model(Remembering(), {"forward": Method((torch.zeros(2, 1, 4),))}), "forward")
    assert [w for w in recwarn if "self.last" in str(w.message)]


def test_names_of_parameters_are_those_of_the_module():
    program = export_method(two_entries(), "decode")
    assert {"out.weight", "out.bias"} <= set(program.graph_signature.inputs_to_parameters.values())


def test_the_module_is_left_as_it_was():
    model = two_entries()
    export_method(model, "encode")
    assert "forward" not in vars(model.module)
    torch.testing.assert_close(model.module(IDS), model.module.embedding(IDS))


def test_the_module_is_left_as_it_was_after_a_failure():
    class Failing(nn.Module):
        def work(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    model = Model(Failing(), {"work": Method((torch.zeros(1),))})
    with pytest.raises(LoweringError):
        export_method(model, "work")
    assert "forward" not in vars(model.module)


def test_nodes_of_any_entry_point_know_their_source_line():
    program = export_method(two_entries(), "decode")
    (mul,) = [node for node in program.graph.nodes if node.target is torch.ops.aten.mul.Tensor]
    assert source_line(mul).endswith("return self.out(hidden) * scale")
    (linear,) = [node for node in program.graph.nodes if node.target is torch.ops.aten.linear.default]
    assert "test_tracing.py" in source_line(linear)


def test_an_unknown_method_is_an_error_with_the_nearest():
    with pytest.raises(LoweringError, match="no method 'encod'; did you mean 'encode'?"):
        export_method(two_entries(), "encod")


def test_a_function_that_does_not_exist_is_an_error():
    model = Model(TwoEntries(), {"go": Method((IDS,), function="walk")})
    with pytest.raises(LoweringError, match="'go' runs TwoEntries.walk, which does not exist"):
        export_method(model, "go")


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_an_unbounded_dimension_is_an_error_that_says_how_to_bound_it():
    model = Model(Twice(), {"forward": Method((torch.zeros(3, 4),), dynamic_shapes=({1: Dim("width")},))})
    with pytest.raises(LoweringError) as error:
        export_method(model, "forward")
    assert "dimension 1 of input 'x' is dynamic and has no upper bound" in str(error.value)
    assert "torch.export.Dim(" in error.value.remedies[0] and "max=" in error.value.remedies[0]


def test_a_derived_dimension_has_the_bound_of_what_it_is_derived_from():
    half = Dim("half", min=2, max=16)
    model = Model(Twice(), {"forward": Method((torch.zeros(8),), dynamic_shapes=({0: 2 * half},))})
    program = export_method(model, "forward")
    (x,) = program.graph.find_nodes(op="placeholder")
    assert "2*" in str(x.meta["val"].shape[0])


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x


def test_a_python_branch_on_values_names_the_line_and_torch_cond():
    with pytest.raises(LoweringError) as error:
        export_method(Model(Branching(), {"forward": Method((torch.ones(2),))}), "forward")
    assert "if x.sum() > 0:" in str(error.value)
    assert "torch.cond" in str(error.value)


class FixedSize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3)


def test_a_dimension_that_the_code_fixes_is_explained():
    model = Model(FixedSize(), {"forward": Method((torch.zeros(6),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))})
    with pytest.raises(LoweringError) as error:
        export_method(model, "forward")
    assert "method 'forward' of FixedSize cannot be exported" in str(error.value)
    assert "dynamic_shapes" in str(error.value)


def test_wrong_example_inputs_are_explained():
    model = Model(Twice(), {"forward": Method((torch.zeros(1), torch.zeros(1)))})
    with pytest.raises(LoweringError, match="cannot be exported"):
        export_method(model, "forward")
