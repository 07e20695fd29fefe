"""The contract between the engine and a device backend, in ExecuTorch's words.

A backend is two things. A Partitioner says which nodes it takes and how each group of them is
to be delegated. A subclass of BackendDetails turns such a group, as a program of its own, into
the bytes that the backend's device runtime loads. `lowering` knows no backend by name: a
backend registers itself with `register_backend` when its module is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch.fx
from torch.export import ExportedProgram

from ..errors import LoweringError, did_you_mean
from .named_data import NamedDataStoreOutput


# node.meta's key for why a partitioner leaves a node to others, in a few words: reports show it.
LEFT_BEHIND = "left_behind"


@dataclass(frozen=True)
class CompileSpec:
    """One option for a backend's compiler and device runtime; stored in the program."""

    key: str
    value: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.value, bytes):
            raise TypeError(f"CompileSpec {self.key!r} needs bytes, not {type(self.value).__name__}")


@dataclass(frozen=True)
class DelegationSpec:
    """How a partition is delegated: to which backend, with which options.

    Given where a Partitioner is accepted, it means the whole graph.
    """

    backend_id: str
    compile_specs: Sequence[CompileSpec] = ()


@dataclass(frozen=True)
class PartitionResult:
    """What a Partitioner made of a program.

    `tagged_exported_program` is the same program with `node.meta["delegation_tag"]` set on the
    nodes to be delegated; `partition_tags` says how the nodes of each tag are delegated.
    """

    tagged_exported_program: ExportedProgram
    partition_tags: Mapping[str, DelegationSpec]


class Partitioner(ABC):
    """Chooses the nodes that a backend takes. It may tag nodes and must not change the graph."""

    @abstractmethod
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag nodes. Parameters and buffers are without data (fake) while this runs."""

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Operators to keep whole for `partition`, and a filter that may refuse single nodes."""
        return [], None

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        return self.partition(exported_program)


@dataclass(frozen=True)
class PreprocessResult:
    """What a backend made of one partition.

    `processed_bytes` is what its runtime gets at init. `debug_handle_map` maps the backend's own
    handles to the debug handles of the nodes that they stand for. `data_store_output` holds named
    data, kept outside the blob and stored once per program; None for none. `_delegate_info_meta` is what the
    backend wants to be known of its work.
    """

    processed_bytes: bytes = b""
    debug_handle_map: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    data_store_output: NamedDataStoreOutput | None = None
    _delegate_info_meta: Any = None


class BackendDetails(ABC):
    """A backend's compiler. Both methods are static: a backend keeps no state between calls."""

    @staticmethod
    @abstractmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition. The program is the backend's own: it may change it."""

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: Mapping[str, Sequence[ExportedProgram]],
        compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Compile the partitions of all methods at once: {method: [program]} → {method: [result]}.

        Override it to share work or data across methods; by default each is compiled alone.
        """
        return {
            method: [cls.preprocess(program, specs) for program, specs in zip(programs, compile_specs[method])]
            for method, programs in edge_programs.items()
        }


_BACKENDS: dict[str, type[BackendDetails]] = {}


def register_backend(backend_id: str, backend: type[BackendDetails]) -> None:
    """Make `backend` known under `backend_id`, the name of its device runtime.

    Raises:
        ValueError: another class already has this id.
    """
    known = _BACKENDS.setdefault(backend_id, backend)
    if known is not backend:
        raise ValueError(f"backend id {backend_id!r} is already taken by {known.__module__}.{known.__qualname__}")


def backend(backend_id: str) -> type[BackendDetails]:
    """The backend registered under `backend_id`.

    Raises:
        LoweringError: there is none; the message lists those that there are.
    """
    if backend_id not in _BACKENDS:
        known = ", ".join(sorted(_BACKENDS)) or "none"
        raise LoweringError(
            f"backend {backend_id!r} is not registered (registered: {known}){did_you_mean(backend_id, _BACKENDS)}",
            remedies=["import the backend's module: it registers itself"],
        )
    return _BACKENDS[backend_id]
