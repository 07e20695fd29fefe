"""The eager PyTorch side of a comparison: a model's methods with a checkpoint's weights, and inputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rules_executorch.lowering.command.factories import load_weights, make_model
from rules_executorch.lowering.command.names import call_user, import_named
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.model import Model
from rules_executorch.lowering.tracing import entry_point

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


class EagerMethod:
    """One method of a model, to be called as the Python method that it is."""

    def __init__(self, model: Model, name: str):
        self._function = getattr(model.module, entry_point(model.module, name, model.methods[name]))
        method = model.methods[name]
        self.example: Call = (method.example_inputs, method.example_kwargs)

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def load_methods(factories: Mapping[str, str], weights: Path | None) -> dict[str, EagerMethod]:
    """The methods by name. `factories` maps each to the "module:factory" that makes its Model.

    Raises:
        LoweringError: a factory cannot be found or gives something else, or the checkpoint does not fit.
        InvalidFileError: the checkpoint is no safetensors file.
    """
    models = {factory: _load_model(factory, weights) for factory in dict.fromkeys(factories.values())}
    methods = {}
    for name, factory in factories.items():
        if name not in models[factory].methods:
            known = ", ".join(models[factory].methods)
            raise LoweringError(f"{factory} has no method {name!r}; it has {known}")
        methods[name] = EagerMethod(models[factory], name)
    return methods


def method_names(factory: str) -> list[str]:
    """The names of all methods of the Model that "module:factory" makes."""
    return list(_load_model(factory, None).methods)


def load_inputs(function: str | None, methods: Mapping[str, EagerMethod]) -> dict[str, list[Call]]:
    """The calls to make of each method.

    `function`, a "module:function", is given the methods, since one's inputs may be another's
    outputs, and gives {method: [args]}; methods that it leaves out, and all if it is None, get their
    example inputs.

    Raises:
        LoweringError: the function cannot be found or gives something else.
    """
    given: Any = {} if function is None else _given(function, methods)
    if not isinstance(given, Mapping):
        raise LoweringError(f"{function} gave a {type(given).__name__}, not {{method: [args, …]}}")
    if unknown := sorted(set(given) - set(methods)):
        raise LoweringError(f"{function} gave inputs for {unknown[0]!r}; the methods are {', '.join(methods)}")
    calls: dict[str, list[Call]] = {}
    for name, method in methods.items():
        calls[name] = [method.example] if name not in given else _calls(function or "", name, given[name])
    return calls


def _calls(function: str, name: str, given: Sequence[Any]) -> list[Call]:
    if not given:
        raise LoweringError(f"{function} gave no inputs for {name!r}")
    for args in given:
        if not isinstance(args, tuple):
            raise LoweringError(f"{function} gave a {type(args).__name__} as inputs of {name!r}, not a tuple")
    return [(args, {}) for args in given]


def _given(function: str, methods: Mapping[str, EagerMethod]) -> Any:
    inputs = import_named(function, "the function for inputs")
    return call_user(lambda: inputs(methods), function)


def _load_model(factory: str, weights: Path | None) -> Model:
    model = make_model(factory)
    if weights is not None:
        load_weights(model.module, weights)
    model.module.eval()
    return model
