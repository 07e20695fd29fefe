"""The quantize stages: torchao's quantize_ on eager modules, and its pt2e flow on exported ones."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

import torch

from ..errors import LoweringError, did_you_mean
from ..model import Model
from ..tracing import export_method
from .recipe import AOQuantizationConfig, QuantizationRecipe


QuantizationRecipes = Union[QuantizationRecipe, Mapping[str, QuantizationRecipe], None]


def transform_source(models: Mapping[str, Model], recipes: QuantizationRecipes) -> dict[str, Model]:
    """Quantize eager modules as the recipes' `ao_quantization_configs` say; the given modules stay as they are.

    Methods that shared a module and a recipe share the quantized copy.
    """
    copies: dict[tuple[int, int], torch.nn.Module] = {}
    transformed = dict(models)
    for name, recipe in _by_method(recipes, models).items():
        if recipe.ao_quantization_configs:
            module = models[name].module
            key = (id(module), id(recipe))
            if key not in copies:
                copies[key] = _quantize_eager(module, recipe.ao_quantization_configs)
            transformed[name] = replace(models[name], module=copies[key])
    return transformed


def quantize(models: Mapping[str, Model], recipes: QuantizationRecipes) -> dict[str, Model]:
    """Quantize each method with pt2e: export, prepare, run the calibration inputs, convert.

    Each quantized method becomes a model of its own, whose module is the converted graph.
    """
    quantized = dict(models)
    for name, recipe in _by_method(recipes, models).items():
        if recipe.get_quantizers():
            quantized[name] = _quantize_method(models[name], name, recipe.get_quantizers())
    return quantized


def _by_method(recipes: QuantizationRecipes, models: Mapping[str, Model]) -> dict[str, QuantizationRecipe]:
    """The recipe of each method that has one."""
    if recipes is None:
        return {}
    if isinstance(recipes, QuantizationRecipe):
        return dict.fromkeys(models, recipes)
    for name in recipes:
        if name not in models:
            near = did_you_mean(name, models)
            raise LoweringError(f"there is a quantization recipe for method {name!r}, which does not exist{near}")
    return dict(recipes)


def _quantize_eager(module: torch.nn.Module, configs: Sequence[AOQuantizationConfig]) -> torch.nn.Module:
    quantize_ = _torchao("torchao.quantization").quantize_
    module = copy.deepcopy(module)
    for config in configs:
        options = {} if config.filter_fn is None else {"filter_fn": config.filter_fn}
        quantize_(module, config.ao_base_config, **options)
    # torchao unwraps the weights of a module's children, and so not those of a module that is itself a layer.
    _torchao("torchao.utils").unwrap_tensor_subclass(torch.nn.ModuleList([module]))
    return module


def _quantize_method(model: Model, name: str, quantizers: Sequence[Any]) -> Model:
    pt2e = _torchao("torchao.quantization.pt2e.quantize_pt2e")
    method = model.methods[name]
    module = export_method(model, name).module(check_guards=False)
    state = {buffer: value.clone() for buffer, value in module.named_buffers()}
    prepared = pt2e.prepare_pt2e(module, _composed(quantizers))
    with torch.no_grad():
        for inputs in method.calibration_inputs or (method.example_inputs,):
            prepared(*inputs, **method.example_kwargs)
    converted = pt2e.convert_pt2e(prepared)
    with torch.no_grad():  # both have run it, and so written to its state: the program starts as the model does
        for buffer, value in converted.named_buffers():
            if buffer in state:
                value.copy_(state[buffer])
    return Model(converted, {name: replace(method, function="forward")})


def _composed(quantizers: Sequence[Any]) -> Any:
    if len(quantizers) == 1:
        return quantizers[0]
    return _torchao("torchao.quantization.pt2e.quantizer").ComposableQuantizer(list(quantizers))


def _torchao(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise LoweringError(
            f"the quantize stages need torchao: {error}",
            remedies=['install it: pip install "rules_executorch[quantize]"'],
        ) from error
