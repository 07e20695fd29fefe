"""The quantize stages: torchao's quantize_ on eager modules, and its pt2e flow on exported ones."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..errors import LoweringError
from ..tracing import export_method
from ..model import Model
from .recipe import AOQuantizationConfig, QuantizationRecipe


def transform_source(models: Mapping[str, Model], recipe: QuantizationRecipe | None) -> dict[str, Model]:
    """Quantize eager modules as `recipe.ao_quantization_configs` says; the given modules stay as they are.

    Methods that shared a module share its quantized copy.
    """
    configs = recipe.ao_quantization_configs if recipe else None
    if not configs:
        return dict(models)
    return _with_copies(models, lambda module: _quantize_eager(module, configs))


def quantize(models: Mapping[str, Model], recipe: QuantizationRecipe | None) -> dict[str, Model]:
    """Quantize each method with pt2e: export, prepare, run the calibration inputs, convert.

    Each method becomes a model of its own, whose module is the converted graph.
    """
    quantizers = recipe.get_quantizers() if recipe else None
    if not quantizers:
        return dict(models)
    return {name: _quantize_method(model, name, quantizers) for name, model in models.items()}


def _quantize_eager(module: torch.nn.Module, configs: Sequence[AOQuantizationConfig]) -> torch.nn.Module:
    quantize_ = _torchao("torchao.quantization").quantize_
    module = copy.deepcopy(module)
    for config in configs:
        options = {} if config.filter_fn is None else {"filter_fn": config.filter_fn}
        quantize_(module, config.ao_base_config, **options)
    return _torchao("torchao.utils").unwrap_tensor_subclass(module)


def _quantize_method(model: Model, name: str, quantizers: Sequence[Any]) -> Model:
    pt2e = _torchao("torchao.quantization.pt2e.quantize_pt2e")
    method = model.methods[name]
    module = export_method(model, name).module(check_guards=False)
    prepared = pt2e.prepare_pt2e(module, _composed(quantizers))
    with torch.no_grad():
        for inputs in method.calibration_inputs or (method.example_inputs,):
            prepared(*inputs, **method.example_kwargs)
    converted = pt2e.convert_pt2e(prepared)
    return Model(converted, {name: replace(method, function="forward")})


def _composed(quantizers: Sequence[Any]) -> Any:
    if len(quantizers) == 1:
        return quantizers[0]
    return _torchao("torchao.quantization.pt2e.quantizer").ComposableQuantizer(list(quantizers))


def _with_copies(
    models: Mapping[str, Model], change: Callable[[torch.nn.Module], torch.nn.Module]
) -> dict[str, Model]:
    changed: dict[int, torch.nn.Module] = {}
    for model in models.values():
        if id(model.module) not in changed:
            changed[id(model.module)] = change(model.module)
    return {name: replace(model, module=changed[id(model.module)]) for name, model in models.items()}


def _torchao(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise LoweringError(
            f"the quantize stages need torchao: {error}",
            remedies=['install it: pip install "rules_executorch[quantize]"'],
        ) from error
