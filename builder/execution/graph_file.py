"""Actions as plain data and back, so that a build whose BUILD files did not change need not analyse them again."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.action import Action, Artifact, Imports, Preload, Resources, RunSpec, Toolchain


def definition_digest(action: Action, toolchains: Mapping[str, Toolchain]) -> str:
    """What tells that an action is no longer the one that ran: a digest of all that can change what it makes."""
    names = [action.toolchain, *action.also]
    imports = action.imports or Imports("", (), ())
    definition = [
        [action.mnemonic, action.toolchain, action.argv, sorted(action.environment.items()), action.also],
        [len(action.inputs), len(action.outputs), len(imports.sources)],
        [imports.module, imports.roots],
        [toolchains[name].identity for name in names if name],
    ]
    # Of paths there may be hundreds; as none can hold it, a zero byte keeps them apart.
    paths = "\0".join([artifact.exec_path for artifact in (*action.inputs, *action.outputs, *imports.sources, *imports.used)])
    text = f"{json.dumps(definition)}\0{paths}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def actions_to_json(actions: Sequence[Action], definitions: Sequence[str]) -> dict[str, Any]:
    """Actions as plain data, each after those that make its inputs; `definitions` are their digests.

    Artifacts are numbered in the order in which actions name them, so that what many of them name is mostly runs
    of consecutive numbers: lists of artifacts are written as [first, end, first, end, …].
    """
    numbers: dict[Artifact, int] = {}
    preloads: dict[tuple, int] = {}
    imports: dict[tuple, int] = {}
    groups: dict[tuple[int, ...], int] = {}

    def runs(artifacts: Sequence[Artifact]) -> tuple[int, ...]:
        found: list[int] = []
        end = -1
        for artifact in artifacts:
            number = numbers.setdefault(artifact, len(numbers))
            if number != end:
                found += (end, number)
            end = number + 1
        # The first end closes nothing.
        return (*found[1:], end) if found else ()

    rows = [
        {
            "mnemonic": action.mnemonic,
            "toolchain": action.toolchain,
            "argv": action.argv,
            "inputs": runs(action.inputs),
            "outputs": runs(action.outputs),
            "environment": dict(action.environment),
            "also": action.also,
            "resources": [action.resources.cpus, action.resources.memory_mib],
            "owner": action.owner,
            "imports": [
                imports.setdefault((each.module, each.roots, runs(each.sources), runs(each.used)), len(imports))
                for each in [action.imports]
                if each
            ],
            "preloads": [
                preloads.setdefault((each.steps, each.import_roots, runs(each.inputs)), len(preloads))
                for each in action.preloads
            ],
            "keeps_for": groups.setdefault(runs(action.keeps_for), len(groups)),
            "definition": definition,
        }
        for action, definition in zip(actions, definitions)
    ]
    paths = [artifact.exec_path for artifact in numbers]
    sources = [None if artifact.source is None else str(artifact.source) for artifact in numbers]
    common = {"preloads": list(preloads), "imports": list(imports), "groups": list(groups)}
    return {"paths": paths, "sources": sources, **common, "actions": rows}


class StoredActions(Sequence[Action]):
    """What actions_to_json made, each action made when it is asked for: most builds need few of many."""

    def __init__(self, data: Mapping[str, Any]):
        self._rows = data["actions"]
        # Of each artifact, its exec_path, and the source's path on disk, or None.
        self._paths: list[str] = data["paths"]
        self._sources: list[str | None] = data["sources"]
        self._made: dict[int, Artifact] = {}
        self._preloads = data["preloads"]
        self._imports = data["imports"]
        self._groups = data["groups"]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Action:
        row = self._rows[number]
        return Action(
            mnemonic=row["mnemonic"],
            toolchain=row["toolchain"],
            argv=tuple(row["argv"]),
            inputs=self._several(row["inputs"]),
            outputs=self._several(row["outputs"]),
            environment=row["environment"],
            also=tuple(row["also"]),
            resources=Resources(*row["resources"]),
            owner=row["owner"],
            imports=next((self._imports_of(*self._imports[n]) for n in row["imports"]), None),
            preloads=tuple(self._preload(*self._preloads[n]) for n in row["preloads"]),
            keeps_for=self._several(self._groups[row["keeps_for"]]),
        )

    @property
    def definitions(self) -> list[str]:
        """The digests of the actions' definitions."""
        return [row["definition"] for row in self._rows]

    def defined(self, definition: str) -> Action | None:
        """The action whose definition has this digest, if there is one."""
        number = self._by_definition.get(definition)
        return None if number is None else self[number]

    @functools.cached_property
    def _by_definition(self) -> dict[str, int]:
        return {definition: number for number, definition in enumerate(self.definitions)}

    def first_outputs(self) -> list[str]:
        """Of each action, the exec_path of the output that it is known by."""
        return [self._paths[row["outputs"][0]] for row in self._rows]

    def outputs(self) -> list[str]:
        """The exec_paths of all outputs."""
        return [path for path, source in zip(self._paths, self._sources) if source is None]

    @functools.cached_property
    def producers(self) -> dict[str, str]:
        """By the exec_path of each output, the first output of the action that makes it."""
        return {
            self._paths[number]: self._paths[row["outputs"][0]]
            for row in self._rows
            for first, end in _pairs(row["outputs"])
            for number in range(first, end)
        }

    def readers(self, output: str) -> list[str]:
        """The first outputs of the actions that read any output of the action whose first one is `output`."""
        return self._readers.get(output, [])

    @functools.cached_property
    def _readers(self) -> dict[str, list[str]]:
        made = [number for number, source in enumerate(self._sources) if source is None]
        found: dict[str, dict[str, None]] = {}
        for row, reader in zip(self._rows, self.first_outputs()):
            for first, end in _pairs(row["inputs"]):
                for number in made[bisect_left(made, first) : bisect_left(made, end)]:
                    producer = self.producers[self._paths[number]]
                    found.setdefault(producer, {})[reader] = None
        return {producer: list(readers) for producer, readers in found.items()}

    def sources(self) -> list[str]:
        """Where the inputs that no action makes are on disk."""
        return [source for source in self._sources if source is not None]

    def naming(self, wanted: Callable[[str, str | None], bool]) -> list[int]:
        """The numbers of the actions that have inputs or outputs of a kind.

        `wanted` says of an exec_path, and of where the file is if it is a source, whether it is of that kind.
        """
        # How many of the kind come before each artifact: so a run has some, if it has more at its end.
        before = [0, *itertools.accumulate(map(wanted, self._paths, self._sources))]
        if not before[-1]:
            return []
        return [
            number
            for number, row in enumerate(self._rows)
            if any(before[end] > before[first] for first, end in _pairs([*row["inputs"], *row["outputs"]]))
        ]

    def _preload(self, steps: Sequence[str], roots: Sequence[str], runs: Sequence[int]) -> Preload:
        return Preload(tuple(steps), tuple(roots), self._several(runs))

    def _imports_of(
        self, module: str, roots: Sequence[str], sources: Sequence[int], used: Sequence[int]
    ) -> Imports:
        return Imports(module, tuple(roots), self._several(sources), self._several(used))

    def _several(self, runs: Sequence[int]) -> tuple[Artifact, ...]:
        return tuple(self._artifact(number) for first, end in _pairs(runs) for number in range(first, end))

    def _artifact(self, number: int) -> Artifact:
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = _artifact_from_json((self._paths[number], self._sources[number]))
        return made


def _pairs(runs: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(runs[::2], runs[1::2])


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
