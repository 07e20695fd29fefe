"""Stages of a pipeline: what each makes of what, and which may follow which.

    SOURCE_TRANSFORM, QUANTIZE       {method: Model} → {method: Model}
    TORCH_EXPORT                     {method: Model} → {method: ExportedProgram}
    TO_EDGE                          {method: ExportedProgram} → EdgeProgramManager
    TO_EDGE_TRANSFORM_AND_LOWER      {method: ExportedProgram} → EdgeProgramManager
    EDGE_PROGRAM_MANAGER_TRANSFORM   EdgeProgramManager → EdgeProgramManager
    TO_BACKEND                       EdgeProgramManager → EdgeProgramManager
    TO_EXECUTORCH                    EdgeProgramManager → ExecutorchProgramManager
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class StageType(str, Enum):
    """The kinds of stages, under ExecuTorch's names."""

    SOURCE_TRANSFORM = "source_transform"
    QUANTIZE = "quantize"
    TORCH_EXPORT = "torch_export"
    TO_EDGE_TRANSFORM_AND_LOWER = "to_edge_transform_and_lower"
    TO_EDGE = "to_edge"
    EDGE_PROGRAM_MANAGER_TRANSFORM = "edge_program_manager_transform"
    TO_BACKEND = "to_backend"
    TO_EXECUTORCH = "to_executorch"


@dataclass(frozen=True)
class Stage:
    """One step, built with all that it needs: `run` takes the previous stage's output, and nothing else."""

    type: StageType | str
    run: Callable[[Any], Any]


@dataclass(frozen=True)
class StageResult:
    """What a stage made, and how long it took, in seconds."""

    data: Any
    seconds: float


# Stages that a stage may directly follow; only the stages in _STARTS may come first.
_PREDECESSORS: Mapping[StageType, tuple[StageType, ...]] = {
    StageType.SOURCE_TRANSFORM: (),
    StageType.QUANTIZE: (StageType.SOURCE_TRANSFORM,),
    StageType.TORCH_EXPORT: (StageType.SOURCE_TRANSFORM, StageType.QUANTIZE),
    StageType.TO_EDGE_TRANSFORM_AND_LOWER: (StageType.TORCH_EXPORT,),
    StageType.TO_EDGE: (StageType.TORCH_EXPORT,),
    StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: (StageType.TO_EDGE,),
    StageType.TO_BACKEND: (StageType.TO_EDGE, StageType.EDGE_PROGRAM_MANAGER_TRANSFORM),
    StageType.TO_EXECUTORCH: (
        StageType.TO_EDGE_TRANSFORM_AND_LOWER,
        StageType.TO_BACKEND,
        StageType.TO_EDGE,
        StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
    ),
}
_STARTS = (
    StageType.SOURCE_TRANSFORM,
    StageType.QUANTIZE,
    StageType.TORCH_EXPORT,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
    StageType.TO_EDGE,
)


def check_pipeline(stages: Sequence[StageType | str]) -> None:
    """Raise ValueError where a stage cannot come first, or cannot follow the one before it.

    Stages of the user's own (strings) may stand anywhere: what surrounds one has to fit by itself.
    """
    if not stages:
        raise ValueError("a pipeline needs at least one stage")
    first = stages[0]
    if isinstance(first, StageType) and first not in _STARTS:
        starts = ", ".join(stage.name for stage in _STARTS)
        raise ValueError(f"stage {first.name} cannot start a pipeline; these can: {starts}")
    for before, stage in zip(stages, stages[1:]):
        if not (isinstance(stage, StageType) and isinstance(before, StageType)):
            continue
        if before not in _PREDECESSORS[stage]:
            allowed = ", ".join(stage.name for stage in _PREDECESSORS[stage]) or "none"
            raise ValueError(
                f"Invalid transition from {before.name} to {stage.name}; {stage.name} may follow: {allowed}"
            )
