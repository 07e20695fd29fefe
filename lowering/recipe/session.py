"""Export sessions: a model taken through the stages of a recipe, with every stage's result at hand."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ..delegation.delegation_info import get_delegation_info
from ..errors import LoweringError, did_you_mean
from ..interchange import load_pt2
from ..model import Method, Model
from ..operators.kernel_libraries import kernel_libraries
from ..program import EdgeProgramManager, ExecutorchProgramManager
from .recipe import ExportRecipe
from .stage import Stage, StageResult, StageType, check_pipeline
from .stages import build_stages

# A Model, a module or an ExportedProgram, one or {method: …}; or the path of a .pt2.
Source = Any
_LOWERING = (StageType.TO_EDGE_TRANSFORM_AND_LOWER, StageType.TO_EXECUTORCH)


def export(
    model: Source,
    example_inputs: Sequence[tuple[Any, ...]] | Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
    export_recipe: ExportRecipe | None = None,
    name: str | None = None,
    dynamic_shapes: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    artifact_dir: str | os.PathLike[str] | None = None,
) -> ExportSession:
    """Take a model through all stages of a recipe; what they made is in the session.

    Args: as of ExportSession.
    """
    session = ExportSession(model, example_inputs, export_recipe, name, dynamic_shapes, constant_methods, artifact_dir)
    session.export()
    return session


class ExportSession:
    """One model, one recipe, and what each stage made of it.

    Args:
        model: a Model, a module or an ExportedProgram, or several of one kind as {method: …}; or the path of a
            .pt2 archive.
        example_inputs: a list of argument tuples, or {method: list}. A method is traced with the first;
            all of them calibrate quantization. A Model and exported programs have their own.
        export_recipe: how to lower; by default to portable kernels.
        name: a name for the session, and of files it saves.
        dynamic_shapes: as torch.export takes it, or {method: dynamic_shapes} where there are several methods.
        constant_methods: methods that return a value known now.
        artifact_dir: a folder into which `export` saves the program.
    """

    def __init__(
        self,
        model: Source,
        example_inputs: Sequence[tuple[Any, ...]] | Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
        export_recipe: ExportRecipe | None = None,
        name: str | None = None,
        dynamic_shapes: Any = None,
        constant_methods: Mapping[str, Any] | None = None,
        artifact_dir: str | os.PathLike[str] | None = None,
    ):
        self.recipe = export_recipe or ExportRecipe()
        self.name = name or self.recipe.name or "program"
        self._source = _methods(model, example_inputs, dynamic_shapes)
        self._artifact_dir = artifact_dir
        self._stages: dict[StageType | str, Stage] = dict(build_stages(self.recipe, constant_methods))
        self._pipeline = tuple(self.recipe.pipeline_stages or default_pipeline(self._source))
        check_pipeline(self._pipeline)
        self._results: dict[StageType | str, StageResult] = {}

    def register_stage(self, stage_type: StageType | str, stage: Stage | Callable[[Any], Any]) -> None:
        """Use `stage` where the pipeline says `stage_type`: one of ExecuTorch's kinds, or a name of your own."""
        self._stages[stage_type] = stage if isinstance(stage, Stage) else Stage(stage_type, stage)

    def get_registered_stage(self, stage_type: StageType | str) -> Stage | None:
        """The stage that runs for `stage_type`."""
        return self._stages.get(stage_type)

    def get_all_registered_stages(self) -> dict[StageType | str, Stage]:
        """All stages that a pipeline can name."""
        return dict(self._stages)

    def export(self) -> None:
        """Run the pipeline from the start. Raises LoweringError as its stages do."""
        self._results.clear()
        data: Any = self._source
        for kind in self._pipeline:
            if kind not in self._stages:
                raise LoweringError(
                    f"stage {kind!r} of the pipeline is not registered", remedies=["register it: register_stage"]
                )
            start = time.perf_counter()
            data = self._stages[kind].run(data)
            self._results[kind] = StageResult(data, time.perf_counter() - start)
        if self._artifact_dir is not None and StageType.TO_EXECUTORCH in self._results:
            Path(self._artifact_dir).mkdir(parents=True, exist_ok=True)
            self.save_to_pte(Path(self._artifact_dir) / f"{self.name}.pte")

    def get_stage_artifacts(self) -> dict[StageType | str, StageResult]:
        """What each stage that ran made, and its time, in order."""
        return dict(self._results)

    def get_exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """A method's program as torch.export gave it, or as the session was given it."""
        programs = self._source
        if StageType.TORCH_EXPORT in self._results:
            programs = self._results[StageType.TORCH_EXPORT].data
        elif any(isinstance(each, Model) for each in programs.values()):
            raise self._not_run("exported program", StageType.TORCH_EXPORT)
        if method_name not in programs:
            raise LoweringError(f"there is no method {method_name!r}{did_you_mean(method_name, programs)}")
        return programs[method_name]

    def get_edge_program_manager(self) -> EdgeProgramManager:
        """The edge programs after the last stage that made some."""
        for result in reversed(self._results.values()):
            if isinstance(result.data, EdgeProgramManager):
                return result.data
        raise self._not_run("edge program", StageType.TO_EDGE, StageType.TO_EDGE_TRANSFORM_AND_LOWER)

    def get_executorch_program_manager(self) -> ExecutorchProgramManager:
        """The emitted program."""
        if StageType.TO_EXECUTORCH not in self._results:
            raise self._not_run("ExecuTorch program", StageType.TO_EXECUTORCH)
        return self._results[StageType.TO_EXECUTORCH].data

    def get_executorch_program(self) -> Any:
        """The emitted program, as values."""
        return self.get_executorch_program_manager().executorch_program

    def get_pte_buffer(self) -> bytes:
        """The bytes of the .pte."""
        return self.get_executorch_program_manager().buffer

    def save_to_pte(self, output_name: str | os.PathLike[str]) -> None:
        """Save the .pte; the suffix is added where it is missing."""
        path = Path(output_name)
        self.get_executorch_program_manager().save(path if path.suffix == ".pte" else Path(f"{path}.pte"))

    def get_example_input(self, method_name: str = "forward") -> tuple[Any, ...]:
        """The arguments that a method is traced with."""
        model = self._source.get(method_name)
        if isinstance(model, Model):
            return model.methods[method_name].example_inputs
        raise LoweringError(f"the session has no example inputs of method {method_name!r}")

    def run_method(self, method_name: str = "forward", example_inputs: Sequence[Any] | None = None) -> Sequence[Any]:
        """Run a method on the official runtime of this machine, by default on its example input."""
        try:  # found at run time: the engine does not depend on the runtime
            runtime = importlib.import_module("executorch.runtime").Runtime.get()
        except ImportError as error:
            raise LoweringError(
                f"no runtime is installed on this machine: {error}",
                remedies=['install it: pip install "rules_executorch[host]"'],
            ) from error
        for module in kernel_libraries(self.get_executorch_program().program_file.program):
            importlib.import_module(module)
        program = runtime.load_program(self.get_pte_buffer())
        method = program.load_method(method_name)
        if method is None:
            raise LoweringError(f"the program has no method {method_name!r}")
        return method.execute(list(self.get_example_input(method_name) if example_inputs is None else example_inputs))

    def print_delegation_info(self) -> None:
        """Print what was delegated and what was not, per method."""
        manager = self.get_edge_program_manager()
        for name in sorted(manager.methods):
            info = get_delegation_info(manager.exported_program(name))
            print(f"method {name}\n{info.get_summary()}\n{info.get_table()}\n")

    def _not_run(self, what: str, *stages: StageType) -> RuntimeError:
        names = " or ".join(stage.name for stage in stages)
        remedy = "call export() first, or add it to the pipeline"
        return RuntimeError(f"there is no {what}: stage {names} has not run; {remedy}")


def default_pipeline(source: Mapping[str, Model | ExportedProgram]) -> tuple[StageType, ...]:
    """The stages that what is lowered needs."""
    first = next(iter(source.values()))
    if isinstance(first, ExportedProgram):
        return _LOWERING
    if isinstance(first.module, torch.fx.GraphModule):
        return (StageType.TORCH_EXPORT, *_LOWERING)
    return (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE, StageType.TORCH_EXPORT, *_LOWERING)


def _methods(source: Source, example_inputs: Any, dynamic_shapes: Any) -> dict[str, Model] | dict[str, ExportedProgram]:
    """Whatever a session is given, by method."""
    if isinstance(source, (str, os.PathLike)):
        source = load_pt2(source)
    if isinstance(source, Model):
        source = dict.fromkeys(source.methods, source)
    by_name = dict(source) if isinstance(source, Mapping) else {"forward": source}
    if not by_name:
        raise LoweringError("there is no method to lower")
    for kind in (ExportedProgram, Model):
        if all(isinstance(each, kind) for each in by_name.values()):
            return by_name
    if not all(isinstance(each, torch.nn.Module) for each in by_name.values()):
        raise TypeError(f"a session takes a Model, modules or exported programs, not {type(source).__name__}")
    inputs = example_inputs if isinstance(example_inputs, Mapping) else {name: example_inputs for name in by_name}
    shapes = dynamic_shapes if _is_per_method(dynamic_shapes, by_name) else {name: dynamic_shapes for name in by_name}
    return {name: _model(module, name, inputs.get(name), shapes.get(name)) for name, module in by_name.items()}


def _is_per_method(dynamic_shapes: Any, methods: Mapping[str, Any]) -> bool:
    return isinstance(dynamic_shapes, Mapping) and bool(dynamic_shapes) and dynamic_shapes.keys() <= methods.keys()


def _model(module: torch.nn.Module, name: str, inputs: Sequence[tuple[Any, ...]] | None, shapes: Any) -> Model:
    if not inputs:
        raise LoweringError(f"there are no example inputs of method {name!r}", remedies=["give example_inputs"])
    method = Method(inputs[0], dynamic_shapes=shapes, function="forward", calibration_inputs=tuple(inputs))
    return Model(module, {name: method})
