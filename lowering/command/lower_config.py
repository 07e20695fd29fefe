"""The configuration of `lower`, and the recipe that it describes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import EdgeCompileConfig, ExecutorchBackendConfig, MemoryPlanningPass
from ..delegation.backend import CompileSpec, DelegationSpec, Partitioner
from ..errors import InvalidFileError, LoweringError, did_you_mean
from ..operators import OperatorSet, named_operator_set
from ..program import delegations_of
from ..recipe import ExportRecipe, LoweringRecipe
from .names import call_user, import_named


@dataclass(frozen=True)
class MethodConfig:
    """One method: its files, what it is delegated to, in order, and the factory of its model."""

    graph: Path
    constants: Path
    lowering: tuple[Mapping[str, Any], ...]
    model: str | None


@dataclass(frozen=True)
class LowerConfig:
    """The command's configuration.

        {"methods": {name: {"graph": path, "constants": path, "lowering": [delegation, …] or null,
                            "model": "module:factory" or null}},
         "backends": {label: {"id": id, "module": module, "partitioner": "module:Class" or null}},
         "recipe": "module:function" or null, "weights": path or null, "constant_methods": {name: value},
         "options": {option: value}}

    A delegation is `{"kind": "delegation_spec", "backend": label, "compile_specs": {key: string}}` or
    `{"kind": "partitioner", "backend": label, "options": {keyword: value}}`. Options are
    ExecutorchBackendConfig's and MemoryPlanningPass's, by their names, and `operators`: the names of the
    sets of kernels that the target runtime has. `recipe` returns an ExportRecipe, and `model` is for one
    that begins with the model.
    """

    methods: Mapping[str, MethodConfig]
    backends: Mapping[str, Mapping[str, Any]]
    recipe: str | None
    weights: Path | None
    constant_methods: Mapping[str, Any]
    options: Mapping[str, Any]

    @staticmethod
    def parse(text: str, where: str) -> LowerConfig:
        """Raises InvalidFileError for what is not such a configuration."""
        try:
            data = json.loads(text)
            methods = {
                name: MethodConfig(
                    Path(each["graph"]), Path(each["constants"]), tuple(each.get("lowering") or ()), each.get("model")
                )
                for name, each in data["methods"].items()
            }
            weights = data.get("weights")
            return LowerConfig(
                methods,
                data.get("backends") or {},
                data.get("recipe"),
                Path(weights) if weights else None,
                data.get("constant_methods") or {},
                data.get("options") or {},
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            defect = f"{type(error).__name__}: {error}"
            raise InvalidFileError(f"{where}: not a configuration of `lower`: {defect}") from error


def recipe_of(config: LowerConfig) -> ExportRecipe:
    """The recipe that a configuration names, with what it says besides: its delegations come first, its options last.

    Raises:
        LoweringError: an unknown backend or option, or a recipe that cannot be made.
    """
    recipe = _named_recipe(config.recipe) if config.recipe else ExportRecipe()
    lowering = recipe.lowering_recipe or LoweringRecipe()
    partitioners = {
        name: [
            *(_delegation(config, name, each) for each in method.lowering),
            *delegations_of(lowering.partitioners, name, config.methods),
        ]
        for name, method in config.methods.items()
    }
    edge_config = lowering.edge_compile_config
    if "operators" in config.options:
        edge_config = dataclasses.replace(
            edge_config or EdgeCompileConfig(), operators=_operators(config.options["operators"])
        )
    return dataclasses.replace(
        recipe,
        lowering_recipe=dataclasses.replace(lowering, partitioners=partitioners, edge_compile_config=edge_config),
        executorch_backend_config=_backend_config(recipe.executorch_backend_config, config.options),
    )


def _named_recipe(name: str) -> ExportRecipe:
    recipe = call_user(import_named(name, "the recipe"), f"the recipe {name}")
    if not isinstance(recipe, ExportRecipe):
        raise LoweringError(
            f"the recipe {name} returned a {type(recipe).__name__}",
            remedies=["return a rules_executorch.lowering.ExportRecipe"],
        )
    return recipe


def _delegation(config: LowerConfig, method: str, data: Mapping[str, Any]) -> Partitioner | DelegationSpec:
    label = data.get("backend", "")
    if label not in config.backends:
        raise LoweringError(f"method {method!r} names backend {label!r}{did_you_mean(label, config.backends)}")
    backend = config.backends[label]
    if data.get("kind") == "delegation_spec":
        specs = [CompileSpec(key, value.encode()) for key, value in sorted((data.get("compile_specs") or {}).items())]
        return DelegationSpec(backend["id"], specs)
    if data.get("kind") != "partitioner":
        kind = data.get("kind")
        raise LoweringError(f"method {method!r} is lowered by {kind!r}, not a delegation_spec or a partitioner")
    if not backend.get("partitioner"):
        raise LoweringError(
            f"method {method!r}: backend {label} has no partitioner",
            remedies=["delegate the whole graph: delegation_spec"],
        )
    what = f"the partitioner of {label}"
    kind = import_named(backend["partitioner"], what)
    made = call_user(lambda: kind(**(data.get("options") or {})), what)
    if not isinstance(made, Partitioner):
        raise LoweringError(f"{what}, {backend['partitioner']}, is not a Partitioner")
    return made


def _operators(names: Sequence[str]) -> OperatorSet:
    try:
        return OperatorSet(frozenset().union(*(named_operator_set(name).names for name in names)))
    except LookupError as error:
        raise LoweringError(f"option operators: {error}") from error


_MEMORY_OPTIONS = ("alloc_graph_input", "alloc_graph_output", "share_mutable_buffers", "alignment")
_PROGRAM_OPTIONS = (
    "emit_stacktrace",
    "extract_delegate_segments",
    "segment_alignment",
    "constant_tensor_alignment",
    "delegate_alignment",
    "external_constants",
    "emit_mutable_buffer_names",
)
_OPTIONS = (*_MEMORY_OPTIONS, *_PROGRAM_OPTIONS, "operators")


def _backend_config(given: ExecutorchBackendConfig | None, options: Mapping[str, Any]) -> ExecutorchBackendConfig:
    for name in options:
        if name not in _OPTIONS:
            raise LoweringError(f"there is no option {name!r}{did_you_mean(name, _OPTIONS)}")
    given = given or ExecutorchBackendConfig()
    changes = {name: options[name] for name in _MEMORY_OPTIONS if name in options}
    planning = given.memory_planning_pass
    if isinstance(planning, MemoryPlanningPass):
        planning = dataclasses.replace(planning, **changes)
    else:
        planning = {method: dataclasses.replace(each, **changes) for method, each in planning.items()}
    return dataclasses.replace(
        given, memory_planning_pass=planning, **{name: options[name] for name in _PROGRAM_OPTIONS if name in options}
    )
