"""Has a backend compile its partitions, those aside whose results are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from ..result_cache import Tally, current_cache
from .backend import BackendDetails, CompileSpec, PreprocessResult, backend
from .canonical import canonical_copy, with_handles
from .lowered_module import LoweredBackendModule
from .partition_key import Contents, partition_key
from .preprocess_results import result_from_bytes, result_to_bytes


@dataclass
class Partition:
    """One partition on its way through a backend: the program that the backend gets, and in the end its result."""

    program: ExportedProgram
    compile_specs: Sequence[CompileSpec]
    handles: Mapping[int, int]  # the program's debug handles → those of the whole program
    result: PreprocessResult | None = None

    @staticmethod
    def of(module: LoweredBackendModule) -> Partition:
        """The partition of a delegate that was cut out and not yet compiled."""
        program, handles = canonical_copy(module.original_program)
        return Partition(program, module.compile_specs, handles)


def preprocess(backend_id: str, partitions: Mapping[str, Sequence[Partition]]) -> None:
    """Give each partition of all methods its result. The backend is called at most once.

    Raises:
        TypeError: the backend does not answer as it should.
        LoweringError: it cannot compile a partition.
    """
    details = backend(backend_id)
    tally = current_cache()
    implementation = getattr(details.preprocess_multimethod, "__func__", None)
    one_by_one = implementation is BackendDetails.preprocess_multimethod.__func__
    keys: dict[int, tuple[str, Contents]] = {}
    if tally and one_by_one:
        keys = _look_up(tally, backend_id, partitions)
    left = {method: [p for p in group if p.result is None] for method, group in partitions.items()}
    left = {method: group for method, group in left.items() if group}
    if left:
        _compile(backend_id, details, left)
    for group in left.values():
        for partition in group:
            assert partition.result is not None
            if tally and id(partition) in keys:
                key, contents = keys[id(partition)]
                if (data := result_to_bytes(partition.result, contents)) is not None:
                    tally.cache.put(key, data)
    if tally:
        compiled = sum(map(len, left.values()))
        tally.preprocessed += compiled
        tally.cached += sum(map(len, partitions.values())) - compiled
    for group in partitions.values():
        for partition in group:
            assert partition.result is not None
            partition.result = with_handles(partition.result, partition.handles)


def _look_up(
    tally: Tally, backend_id: str, partitions: Mapping[str, Sequence[Partition]]
) -> dict[int, tuple[str, Contents]]:
    """Take the results that are known; returns keys and contents by the partition's id."""
    keys: dict[int, tuple[str, Contents]] = {}
    for partition in (each for group in partitions.values() for each in group):
        try:
            contents = tally.contents(partition.program)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            continue  # an object, or a tensor that is nowhere
        key = partition_key(backend_id, partition.program, partition.compile_specs, contents)
        if key is None:
            continue
        keys[id(partition)] = key, contents
        if (data := tally.cache.get(key)) is not None:
            tensors = {**partition.program.state_dict, **partition.program.constants}
            partition.result = result_from_bytes(data, tensors)
    return keys


def _compile(
    backend_id: str, details: type[BackendDetails], partitions: Mapping[str, Sequence[Partition]]
) -> None:
    results = details.preprocess_multimethod(
        {method: [partition.program for partition in group] for method, group in partitions.items()},
        {method: [partition.compile_specs for partition in group] for method, group in partitions.items()},
    )
    for method, group in partitions.items():
        answers = results.get(method, ())
        if len(answers) != len(group) or not all(isinstance(a, PreprocessResult) for a in answers):
            raise TypeError(
                f"{backend_id}.preprocess_multimethod must return one PreprocessResult for each of the "
                f"{len(group)} partitions of method {method!r}, not {answers!r}"
            )
        for partition, answer in zip(group, answers):
            partition.result = answer
