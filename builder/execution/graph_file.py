"""Actions as plain data and back, so that a build whose BUILD files did not change need not analyse them again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.action import Action, Artifact, Preload, Resources, RunSpec, Toolchain


def definition_digest(action: Action, toolchains: Mapping[str, Toolchain]) -> str:
    """What ninja compares to see that an action is no longer the one that ran: all that can change what it makes."""
    names = [action.toolchain, *action.also]
    definition = [
        [action.mnemonic, action.toolchain, action.argv, sorted(action.environment.items()), action.also],
        [artifact.exec_path for artifact in (*action.inputs, *action.outputs)],
        len(action.inputs),
        action.unused_inputs.exec_path if action.unused_inputs else None,
        [toolchains[name].identity for name in names if name],
    ]
    return hashlib.sha256(json.dumps(definition).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def actions_to_json(actions: Sequence[Action]) -> dict[str, Any]:
    """Actions as plain data; what many of them name is written once."""
    numbers: dict[Artifact, int] = {}
    preloads: dict[Preload, int] = {}
    groups: dict[tuple[Artifact, ...], int] = {}

    def number(artifact: Artifact) -> int:
        return numbers.setdefault(artifact, len(numbers))

    rows = [
        {
            "mnemonic": action.mnemonic,
            "toolchain": action.toolchain,
            "argv": action.argv,
            "inputs": [number(a) for a in action.inputs],
            "outputs": [number(a) for a in action.outputs],
            "environment": dict(action.environment),
            "also": action.also,
            "resources": [action.resources.cpus, action.resources.memory_mib],
            "owner": action.owner,
            "unused_inputs": None if action.unused_inputs is None else number(action.unused_inputs),
            "preloads": [preloads.setdefault(preload, len(preloads)) for preload in action.preloads],
            "keeps_for": groups.setdefault(action.keeps_for, len(groups)),
        }
        for action in actions
    ]
    shared = [[preload.steps, preload.import_roots, [number(a) for a in preload.inputs]] for preload in preloads]
    kept = [[number(a) for a in group] for group in groups]
    return {"artifacts": [_artifact_to_json(a) for a in numbers], "preloads": shared, "groups": kept, "actions": rows}


def actions_from_json(data: Mapping[str, Any]) -> list[Action]:
    """The inverse of actions_to_json."""
    artifacts = [_artifact_from_json(pair) for pair in data["artifacts"]]

    def several(numbers: Iterable[int]) -> tuple[Artifact, ...]:
        return tuple(artifacts[n] for n in numbers)

    preloads = [Preload(tuple(steps), tuple(roots), several(inputs)) for steps, roots, inputs in data["preloads"]]
    groups = [several(numbers) for numbers in data["groups"]]
    return [
        Action(
            mnemonic=row["mnemonic"],
            toolchain=row["toolchain"],
            argv=tuple(row["argv"]),
            inputs=several(row["inputs"]),
            outputs=several(row["outputs"]),
            environment=row["environment"],
            also=tuple(row["also"]),
            resources=Resources(*row["resources"]),
            owner=row["owner"],
            unused_inputs=None if row["unused_inputs"] is None else artifacts[row["unused_inputs"]],
            preloads=tuple(preloads[n] for n in row["preloads"]),
            keeps_for=groups[row["keeps_for"]],
        )
        for row in data["actions"]
    ]


def run_to_json(spec: RunSpec) -> dict[str, Any]:
    """How a target is run, as plain data."""
    return {
        "argv": spec.argv,
        "runfiles": [_artifact_to_json(a) for a in spec.runfiles],
        "toolchain": spec.toolchain,
        "also": spec.also,
        "environment": dict(spec.environment),
        "timeout_seconds": spec.timeout_seconds,
    }


def run_from_json(data: Mapping[str, Any]) -> RunSpec:
    """The inverse of run_to_json."""
    return RunSpec(
        argv=tuple(data["argv"]),
        runfiles=tuple(_artifact_from_json(pair) for pair in data["runfiles"]),
        toolchain=data["toolchain"],
        also=tuple(data["also"]),
        environment=data["environment"],
        timeout_seconds=data["timeout_seconds"],
    )


def _artifact_to_json(artifact: Artifact) -> list[str | None]:
    return [artifact.exec_path, None if artifact.source is None else str(artifact.source)]


def _artifact_from_json(pair: Sequence[str | None]) -> Artifact:
    exec_path, source = pair
    assert exec_path is not None
    return Artifact(exec_path, None if source is None else Path(source))
