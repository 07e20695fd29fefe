"""The engine's public way from exported programs to a .pte: to_edge, to_backend, to_executorch."""

from __future__ import annotations

import io
import os
import pprint
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO, Union

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_manager import PassManager

from .config import EdgeCompileConfig, ExecutorchBackendConfig, Pass
from .delegation.backend import Partitioner
from .delegation.to_backend import Delegation, Delegations, to_backend
from .edge.edge_cache import kept_or_made
from .edge.to_edge import to_edge_program
from .edge.verify import verify_edge_program
from .emit.emit import EmittedProgram, emit_program
from .errors import LoweringError, did_you_mean
from .format.inspect import describe
from .format.ptd import write_ptd
from .format.write import write_pte
from .transform import transform_all

Passes = Union[Sequence[Pass], Mapping[str, Sequence[Pass]], PassManager]


def to_edge(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Exported programs → edge programs, by method name; a single program becomes the method "forward".

    `constant_methods` are methods without inputs that return a value known now.
    """
    config = compile_config or EdgeCompileConfig()
    edge = {name: _edge(program, config) for name, program in _by_method(programs).items()}
    return EdgeProgramManager(edge, constant_methods, config)


def to_edge_transform_and_lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    transform_passes: Passes | None = None,
    partitioner: Delegations | Mapping[str, Delegations] = None,
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """to_edge, then `transform_passes`, then to_backend.

    Unlike the three calls by themselves, this keeps whole the operators that the partitioners ask for
    (`Partitioner.ops_to_not_decompose`), and decomposes those that no partition took.
    """
    return transform_and_lower(
        _by_method(programs),
        lambda edge: transform_all(edge, transform_passes or ()),
        partitioner,
        constant_methods,
        compile_config or EdgeCompileConfig(),
    )


def transform_and_lower(
    programs: Mapping[str, ExportedProgram],
    transform: Callable[[dict[str, ExportedProgram]], dict[str, ExportedProgram]],
    partitioner: Delegations | Mapping[str, Delegations],
    constant_methods: Mapping[str, Any] | None,
    config: EdgeCompileConfig,
) -> EdgeProgramManager:
    """to_edge_transform_and_lower, with any function over all edge programs as the transformation."""
    wishes = {
        name: ops_to_keep(program, delegations_of(partitioner, name, programs)) for name, program in programs.items()
    }
    edge = transform({name: _edge(program, config, *wishes[name]) for name, program in programs.items()})
    edge = lower_to_backends(edge, partitioner)
    for name, program in edge.items():
        if _calls_any(program, wishes[name][0]):  # no partition took it: it is decomposed after all
            edge[name] = _edge(program, config)
    return EdgeProgramManager(edge, constant_methods, config)


def ops_to_keep(
    program: ExportedProgram, delegations: Sequence[Delegation]
) -> tuple[frozenset[OpOverload], Callable[[Node], bool]]:
    """Operators that some partitioner wants whole, and whether one of those wants a given node whole."""
    wishes: dict[OpOverload, list[Callable[[Node], bool] | None]] = {}
    for delegation in delegations:
        if isinstance(delegation, Partitioner):
            ops, accepts = delegation.ops_to_not_decompose(program)
            for op in ops:
                wishes.setdefault(op, []).append(accepts)

    def keep(node: Node) -> bool:
        filters = wishes.get(node.target, [None])  # what the compile config preserves is kept everywhere
        return any(accepts is None or accepts(node) for accepts in filters)

    return frozenset(wishes), keep


def lower_to_backends(
    programs: Mapping[str, ExportedProgram],
    partitioner: Delegations | Mapping[str, Delegations],
    *,
    check_purity: bool = True,
) -> dict[str, ExportedProgram]:
    """to_backend over all methods; methods for which nothing is said pass through."""
    by_method = {name: delegations_of(partitioner, name, programs) for name in programs}
    by_method = {name: delegations for name, delegations in by_method.items() if delegations}
    return dict(to_backend(programs, by_method, check_purity=check_purity)) if by_method else dict(programs)


def delegations_of(
    partitioner: Delegations | Mapping[str, Delegations], method: str, methods: Mapping[str, Any]
) -> list[Delegation]:
    """The partitioners and delegation specs for one method, in order."""
    if isinstance(partitioner, Mapping):
        for name in partitioner:
            if name not in methods:
                raise LoweringError(
                    f"a partitioner is given for method {name!r}, which does not exist{did_you_mean(name, methods)}"
                )
        partitioner = partitioner.get(method)
    if partitioner is None:
        return []
    return list(partitioner) if isinstance(partitioner, Sequence) else [partitioner]


class EdgeProgramManager:
    """The edge programs of a model's methods. Each step returns a new manager and leaves this one as it is."""

    def __init__(
        self,
        edge_programs: ExportedProgram | Mapping[str, ExportedProgram],
        constant_methods: Mapping[str, Any] | None = None,
        compile_config: EdgeCompileConfig | None = None,
    ):
        self._programs = _by_method(edge_programs)
        self._constant_methods = dict(constant_methods or {})
        self.compile_config = compile_config or EdgeCompileConfig()
        for name in sorted(self._constant_methods.keys() & self._programs.keys()):
            raise LoweringError(f"{name!r} is both a method and a constant method")

    @property
    def methods(self) -> set[str]:
        """The names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """The names of the constant methods."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The edge program of a method. Raises LoweringError where there is none."""
        return _method(self._programs, method_name)

    def transform(self, passes: Passes, compile_config: EdgeCompileConfig | None = None) -> EdgeProgramManager:
        """Run passes over all methods, or, given a mapping, each method's own."""
        programs = transform_all(self._programs, passes)
        return EdgeProgramManager(programs, self._constant_methods, compile_config or self.compile_config)

    def to_backend(
        self, partitioner: Delegations | Mapping[str, Delegations], *, check_purity: bool = True
    ) -> EdgeProgramManager:
        """Delegate: one partitioner (or DelegationSpec, or list of them) for all methods, or a mapping.

        Methods that the mapping leaves out pass through. Each backend is called once for all methods.
        Without `check_purity`, partitioners may change the graph that they tag.
        """
        programs = lower_to_backends(self._programs, partitioner, check_purity=check_purity)
        return EdgeProgramManager(programs, self._constant_methods, self.compile_config)

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Plan memory and emit. Raises LoweringError naming what the target runtime cannot run."""
        config = config or ExecutorchBackendConfig()
        programs = transform_all(self._programs, config.passes)
        exceptions, operators = self.compile_config._core_aten_ops_exception_list, self.compile_config.operators
        if self.compile_config._check_ir_validity:
            for program in programs.values():
                verify_edge_program(program, operators, allowed=exceptions)
        emitted = emit_program(programs, self._constant_methods, config.emit_config(operators))
        return ExecutorchProgramManager(emitted, programs, self._constant_methods)


class ExecutorchProgramManager:
    """An emitted program: its bytes, and what is known about it beside them."""

    def __init__(
        self, emitted: EmittedProgram, programs: Mapping[str, ExportedProgram], constant_methods: Mapping[str, Any]
    ):
        self._emitted = emitted
        self._programs = dict(programs)
        self._constant_methods = dict(constant_methods)
        self._buffer: bytes | None = None

    @property
    def methods(self) -> set[str]:
        """The names of the methods."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """The names of the constant methods."""
        return set(self._constant_methods)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The program of a method as it was emitted. Raises LoweringError where there is none."""
        return _method(self._programs, method_name)

    @property
    def executorch_program(self) -> EmittedProgram:
        """The program as it is written, as values."""
        return self._emitted

    @property
    def debug_handle_map(self) -> Mapping[str, Any]:
        """Per method: instruction → the debug handles of the nodes that it runs."""
        return self._emitted.debug_handle_map

    @property
    def delegate_map(self) -> Mapping[str, Any]:
        """Per method: instruction of a delegate → its backend and what its own handles stand for."""
        return self._emitted.delegate_map

    @property
    def buffer(self) -> bytes:
        """The .pte. For a large program, write_to_file or save need less memory."""
        if self._buffer is None:
            stream = io.BytesIO()
            self.write_to_file(stream)
            self._buffer = stream.getvalue()
        return self._buffer

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Write the .pte to a file that is open for writing bytes; weights are streamed, not copied."""
        write_pte(self._emitted, open_file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the .pte to `path`, which must end in .pte; it appears whole or not at all."""
        if Path(path).suffix != ".pte":
            raise LoweringError(f"a program is saved to a file that ends in .pte, not to {os.fspath(path)!r}")
        write_pte(self._emitted, path)

    def write_tensor_data_to_file(self, outdir: str | os.PathLike[str]) -> None:
        """Write the constants that live outside the program: one `<tag>.ptd` each, into the folder `outdir`."""
        Path(outdir).mkdir(parents=True, exist_ok=True)
        for tag, data in self._emitted.external_data.items():
            write_ptd(data, Path(outdir) / f"{tag}.ptd")

    @property
    def instruction_id_to_num_outs_map(self) -> Mapping[str, Any]:
        """Per method: instruction → how many results it writes."""
        return self._emitted.instruction_id_to_num_outs_map

    def dump_executorch_program(self, verbose: bool = False, out: TextIO | None = None) -> None:
        """Print what the program holds; `verbose` prints all of its tables."""
        program_file = self._emitted.program_file
        print(pprint.pformat(program_file.program) if verbose else describe(program_file), file=out)


def _edge(
    program: ExportedProgram,
    config: EdgeCompileConfig,
    ops: Collection[OpOverload] = (),
    keep: Callable[[Node], bool] | None = None,
) -> ExportedProgram:
    preserve_ops = (*config.preserve_ops, *ops)
    return kept_or_made(
        program,
        preserve_ops,
        config.operators,
        lambda: to_edge_program(program, preserve_ops=preserve_ops, keep=keep, operators=config.operators),
    )


def _calls_any(program: ExportedProgram, ops: Collection[OpOverload]) -> bool:
    modules = [module for module in program.graph_module.modules() if isinstance(module, GraphModule)]
    return any(node.target in ops for module in modules for node in module.graph.nodes)


def _by_method(programs: ExportedProgram | Mapping[str, ExportedProgram]) -> dict[str, ExportedProgram]:
    if isinstance(programs, ExportedProgram):
        return {"forward": programs}
    if not programs:
        raise LoweringError("there is no method to lower: the mapping of programs is empty")
    return dict(programs)


def _method(programs: Mapping[str, ExportedProgram], name: str) -> ExportedProgram:
    if name not in programs:
        raise LoweringError(f"there is no method {name!r}{did_you_mean(name, programs)}")
    return programs[name]
