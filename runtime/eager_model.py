"""The eager PyTorch side of a comparison: a model's methods with a checkpoint's weights, and inputs for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.tracing import entry_point
from rules_executorch.lowering.model import Model

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


class EagerModelError(Exception):
    """A model, checkpoint or function for inputs that is not what it should be; shown as it is."""


class EagerMethod:
    """One method of a model, to be called as the Python method that it is."""

    def __init__(self, model: Model, name: str):
        try:
            self._function = getattr(model.module, entry_point(model.module, name, model.methods[name]))
        except LoweringError as error:
            raise EagerModelError(str(error)) from None
        method = model.methods[name]
        self.example: Call = (method.example_inputs, method.example_kwargs)

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def load_methods(factories: Mapping[str, str], weights: Path | None) -> dict[str, EagerMethod]:
    """The methods by name. `factories` maps each to the "module:factory" that makes its Model.

    Raises:
        EagerModelError: a factory cannot be found or gives something else, or the checkpoint does not fit.
    """
    models = {factory: _load_model(factory, weights) for factory in dict.fromkeys(factories.values())}
    methods = {}
    for name, factory in factories.items():
        if name not in models[factory].methods:
            known = ", ".join(models[factory].methods)
            raise EagerModelError(f"{factory} has no method {name!r}; it has {known}")
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
        EagerModelError: the function cannot be found or gives something else.
    """
    given: Any = {} if function is None else _find(function)(methods)
    if not isinstance(given, Mapping):
        raise EagerModelError(f"{function} gave a {type(given).__name__}, not {{method: [args, …]}}")
    if unknown := sorted(set(given) - set(methods)):
        raise EagerModelError(f"{function} gave inputs for {unknown[0]!r}; the methods are {', '.join(methods)}")
    calls: dict[str, list[Call]] = {}
    for name, method in methods.items():
        calls[name] = [method.example] if name not in given else _calls(function or "", name, given[name])
    return calls


def _calls(function: str, name: str, given: Sequence[Any]) -> list[Call]:
    if not given:
        raise EagerModelError(f"{function} gave no inputs for {name!r}")
    for args in given:
        if not isinstance(args, tuple):
            raise EagerModelError(f"{function} gave a {type(args).__name__} as inputs of {name!r}, not a tuple")
    return [(args, {}) for args in given]


def _load_model(factory: str, weights: Path | None) -> Model:
    # As when it was exported: a factory that draws its initial weights draws the same ones.
    torch.manual_seed(0)
    model = _find(factory)()
    if not isinstance(model, Model):
        raise EagerModelError(f"{factory} gave a {type(model).__name__}, not a rules_executorch.lowering.model.Model")
    if weights is not None:
        _load_weights(model.module, weights)
    model.module.eval()
    return model


def _load_weights(module: torch.nn.Module, weights: Path) -> None:
    try:
        tensors = safetensors.torch.load_file(weights)
        result = module.load_state_dict(tensors, strict=False)
    except (OSError, safetensors.SafetensorError, RuntimeError) as error:
        raise EagerModelError(f"cannot load {weights} into {type(module).__name__}: {error}") from None
    if result.missing_keys:
        raise EagerModelError(f"{weights} lacks {', '.join(result.missing_keys)} of {type(module).__name__}")


def _find(name: str) -> Callable[..., Any]:
    """The object that "module:attribute" names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise EagerModelError(f"there is no module {error.name!r} for {name!r}; is it in `deps`?") from None
        raise
    except AttributeError:
        raise EagerModelError(f"module {module!r} has no {attribute!r}") from None
