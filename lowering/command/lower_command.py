"""`lower`: exported methods → a program, and a report of what it needs at run time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import ExecutorchBackendConfig, MemoryPlanningPass
from ..delegation.backend import CompileSpec, DelegationSpec, Partitioner
from ..errors import InvalidFileError, LoweringError, did_you_mean
from ..files import replacing
from ..interchange import load_program
from ..recipe import ExportRecipe, ExportSession, LoweringRecipe
from .names import call_user, import_module, import_named
from .report import report


@dataclass(frozen=True)
class MethodConfig:
    """One method: its files, and what it is delegated to, in order."""

    graph: Path
    constants: Path
    lowering: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class LowerConfig:
    """The command's configuration.

        {"methods": {name: {"graph": path, "constants": path, "lowering": [delegation, …] or null}},
         "backends": {label: {"id": id, "module": module, "partitioner": "module:Class" or null}},
         "weights": path or null, "constant_methods": {name: value}, "options": {option: value}}

    A delegation is `{"kind": "delegation_spec", "backend": label, "compile_specs": {key: string}}` or
    `{"kind": "partitioner", "backend": label, "options": {keyword: value}}`. Options are
    ExecutorchBackendConfig's and MemoryPlanningPass's, by their names.
    """

    methods: Mapping[str, MethodConfig]
    backends: Mapping[str, Mapping[str, Any]]
    weights: Path | None
    constant_methods: Mapping[str, Any]
    options: Mapping[str, Any]

    @staticmethod
    def parse(text: str, where: str) -> LowerConfig:
        """Raises InvalidFileError for what is not such a configuration."""
        try:
            data = json.loads(text)
            methods = {
                name: MethodConfig(Path(each["graph"]), Path(each["constants"]), tuple(each.get("lowering") or ()))
                for name, each in data["methods"].items()
            }
            weights = data.get("weights")
            return LowerConfig(
                methods,
                data.get("backends") or {},
                Path(weights) if weights else None,
                data.get("constant_methods") or {},
                data.get("options") or {},
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            defect = f"{type(error).__name__}: {error}"
            raise InvalidFileError(f"{where}: not a configuration of `lower`: {defect}") from error


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--config", required=True, help="the configuration: a file, or JSON itself")
    parser.add_argument("--out", required=True, type=Path, help="where the program goes: a .pte")
    parser.add_argument("--report", required=True, type=Path, help="where the report goes: JSON")


def run(arguments: argparse.Namespace) -> None:
    """Lower. Raises LoweringError and InvalidFileError."""
    inline = arguments.config.lstrip().startswith("{")
    config = LowerConfig.parse(
        arguments.config if inline else Path(arguments.config).read_text(), "--config" if inline else arguments.config
    )
    for label, backend in config.backends.items():
        import_module(backend["module"], f"backend {label}")
    weights = [config.weights] if config.weights else []
    programs = {
        name: load_program(method.graph, [method.constants, *weights]) for name, method in config.methods.items()
    }
    session = ExportSession(programs, export_recipe=recipe(config), constant_methods=config.constant_methods)
    session.export()
    session.save_to_pte(arguments.out)
    with replacing(arguments.report) as temporary:
        temporary.write_text(json.dumps(report(session), indent=1) + "\n", encoding="utf-8")


def recipe(config: LowerConfig) -> ExportRecipe:
    """The recipe that a configuration describes. Raises LoweringError for an unknown backend or option."""
    return ExportRecipe(
        lowering_recipe=LoweringRecipe(
            partitioners={
                name: [_delegation(config, name, each) for each in method.lowering]
                for name, method in config.methods.items()
            }
        ),
        executorch_backend_config=_backend_config(config.options),
    )


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


def _backend_config(options: Mapping[str, Any]) -> ExecutorchBackendConfig:
    for name in options:
        if name not in (*_MEMORY_OPTIONS, *_PROGRAM_OPTIONS):
            near = did_you_mean(name, (*_MEMORY_OPTIONS, *_PROGRAM_OPTIONS))
            raise LoweringError(f"there is no option {name!r}{near}")
    memory = MemoryPlanningPass(**{name: options[name] for name in _MEMORY_OPTIONS if name in options})
    return ExecutorchBackendConfig(
        memory_planning_pass=memory, **{name: options[name] for name in _PROGRAM_OPTIONS if name in options}
    )
