"""to_backend: hand programs, or parts of them, to device backends.

    to_backend("MyBackend", program, compile_specs)                     → LoweredBackendModule
    to_backend(program, MyPartitioner())                                → program
    to_backend({"encode": program, …}, {"encode": MyPartitioner(), …})  → {"encode": program, …}

Where a Partitioner stands, a DelegationSpec may stand and means the whole graph, or a list of
both, applied in order. In the last form a single one serves all methods, methods without one pass
through, and each backend compiles all its partitions of all methods in one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union, overload

import torch.fx
from torch.export import ExportedProgram

from ..errors import LoweringError
from .backend import CompileSpec, DelegationSpec, Partitioner, PartitionResult, backend
from .constants import copy_constant_work
from .cut import cut_partitions
from .graph_copy import attribute_of, copy_program
from .lowered_module import LoweredBackendModule
from .partitioning import WholeGraphPartitioner
from .preprocessing import Partition, preprocess

Delegation = Union[Partitioner, DelegationSpec]
Delegations = Union[Delegation, Sequence[Delegation], None]


@dataclass(frozen=True)
class MethodProgramsPartitionerSpec:
    """ExecuTorch's name for the pair of arguments of to_backend's last form."""

    method_to_edge_program: Mapping[str, ExportedProgram]
    method_to_partitioner: Mapping[str, Delegations]


@overload
def to_backend(
    backend_id: str, program: ExportedProgram, compile_specs: Sequence[CompileSpec] = (), /
) -> LoweredBackendModule: ...
@overload
def to_backend(
    program: ExportedProgram, partitioner: Delegations, /, *, check_purity: bool = True
) -> ExportedProgram: ...
@overload
def to_backend(
    programs: Mapping[str, ExportedProgram],
    partitioners: Mapping[str, Delegations] | Delegations,
    /,
    *,
    check_purity: bool = True,
) -> dict[str, ExportedProgram]: ...
@overload
def to_backend(spec: MethodProgramsPartitionerSpec, /, *, check_purity: bool = True) -> dict[str, ExportedProgram]: ...
def to_backend(first, second=None, third=(), /, *, check_purity=True):  # type: ignore[no-untyped-def]
    """Delegate; the forms are in this module's docstring. Programs that are given stay as they are.

    Args:
        check_purity: check that partitioners do nothing but tag nodes. Without, what a
            partitioner returns is used as it is, changed or not.

    Raises:
        LoweringError: an unknown backend, tags that cannot be followed, or whatever a backend
            cannot compile.
    """
    if isinstance(first, str):
        return _lower_whole_program(first, second, third)
    if isinstance(first, ExportedProgram):
        return _delegate({"forward": first}, {"forward": _as_list(second)}, check_purity)["forward"]
    if isinstance(first, MethodProgramsPartitionerSpec):
        first, second = first.method_to_edge_program, first.method_to_partitioner
    if isinstance(first, Mapping):
        return _delegate(first, _by_method(first, second), check_purity)
    raise TypeError(
        "to_backend takes (backend_id, program, compile_specs), (program, partitioner) or "
        f"({{method: program}}, {{method: partitioner}}), not a {type(first).__name__} first"
    )


def _as_list(delegations: Delegations) -> list[Partitioner]:
    """Partitioners, in the order in which they apply."""
    if delegations is None:
        return []
    items = delegations if isinstance(delegations, Sequence) else [delegations]
    for item in items:
        if not isinstance(item, (Partitioner, DelegationSpec)):
            raise TypeError(f"expected a Partitioner or a DelegationSpec, not {item!r}")
    return [WholeGraphPartitioner(item) if isinstance(item, DelegationSpec) else item for item in items]


def _by_method(
    programs: Mapping[str, ExportedProgram], partitioners: Mapping[str, Delegations] | Delegations
) -> dict[str, list[Partitioner]]:
    if not isinstance(partitioners, Mapping):
        return {method: _as_list(partitioners) for method in programs}
    for method in partitioners:
        if method not in programs:
            known = ", ".join(programs)
            raise LoweringError(f"there is a partitioner for method {method!r}, but the methods are: {known}")
    return {method: _as_list(partitioners.get(method)) for method in programs}


def _lower_whole_program(
    backend_id: str, program: ExportedProgram, compile_specs: Sequence[CompileSpec]
) -> LoweredBackendModule:
    backend(backend_id)
    delegate = LoweredBackendModule(backend_id, copy_program(program), compile_specs)
    _preprocess({"forward": [delegate]})
    return delegate


def _delegate(
    programs: Mapping[str, ExportedProgram], partitioners: Mapping[str, list[Partitioner]], check_purity: bool
) -> dict[str, ExportedProgram]:
    """Cut first, all methods and partitioners; then compile, each backend once."""
    delegated: dict[str, ExportedProgram] = {}
    delegates: dict[str, list[LoweredBackendModule]] = {}
    for method, program in programs.items():
        delegates[method] = []
        for partitioner in partitioners[method]:
            program, cut_out = _partition(program, partitioner, check_purity)
            delegates[method].extend(cut_out)
        delegated[method] = program
    _preprocess(delegates)
    return delegated


def _partition(
    program: ExportedProgram, partitioner: Partitioner, check_purity: bool
) -> tuple[ExportedProgram, list[LoweredBackendModule]]:
    """One partitioner's partitions of one program, cut out."""
    result = partitioner(copy_program(program, without_data=True))
    if not isinstance(result, PartitionResult):
        raise TypeError(f"{type(partitioner).__name__}.partition must return a PartitionResult, not {result!r}")
    for spec in result.partition_tags.values():
        backend(spec.backend_id)  # so that a misspelt id is reported before any work
    tagged = result.tagged_exported_program
    if check_purity:
        _check_same_graph(program.graph_module, tagged.graph_module, type(partitioner).__name__)
    copy_constant_work(tagged)
    return cut_partitions(tagged, result.partition_tags, data=program)


def _preprocess(delegates: Mapping[str, Sequence[LoweredBackendModule]]) -> None:
    """Have every backend compile all its delegates of all methods, in one call each."""
    by_backend: dict[str, dict[str, list[LoweredBackendModule]]] = {}
    for method, modules in delegates.items():
        for module in modules:
            by_backend.setdefault(module.backend_id, {}).setdefault(method, []).append(module)
    for backend_id, modules_of in by_backend.items():
        work = {method: [Partition.of(module) for module in modules] for method, modules in modules_of.items()}
        preprocess(backend_id, work)
        for method, modules in modules_of.items():
            for module, partition in zip(modules, work[method]):
                assert partition.result is not None
                module.result = partition.result


def _check_same_graph(before: torch.fx.GraphModule, after: torch.fx.GraphModule, partitioner: str) -> None:
    """Raise LoweringError unless a tagged graph has the nodes that it had: equal targets on equal operands."""
    same: dict[torch.fx.Node, torch.fx.Node] = {}
    for old, new in zip(before.graph.nodes, after.graph.nodes):
        operands = torch.fx.node.map_arg((old.args, old.kwargs), lambda node: same.get(node))
        if (old.op, old.target, operands) != (new.op, new.target, (new.args, new.kwargs)):
            raise _impure(partitioner, f"it changed this node, which was {old.format_node()}", new)
        same[old] = new
        if old.op == "get_attr":
            bodies = attribute_of(before, old.target), attribute_of(after, new.target)
            if all(isinstance(body, torch.fx.GraphModule) for body in bodies):
                _check_same_graph(*bodies, partitioner)
    if len(before.graph.nodes) != len(after.graph.nodes):
        raise _impure(partitioner, f"it made {len(after.graph.nodes)} nodes of {len(before.graph.nodes)}", None)


def _impure(partitioner: str, what: str, node: torch.fx.Node | None) -> LoweringError:
    return LoweringError(
        f"partitioner {partitioner} changed the graph: {what}",
        node=node,
        remedies=["only set node.meta['delegation_tag'] in partition()", "pass check_purity=False if it is meant to"],
    )
