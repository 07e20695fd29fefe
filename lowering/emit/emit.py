"""Edge programs → a program file: the public entry of emission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.export import ExportedProgram

from ..errors import LoweringError
from ..format.program import ProgramFile
from ..format.ptd import TensorData
from .assemble import MemoryReport, assemble
from .config import EmitConfig, MemoryConfig
from .constant_methods import emit_constant_method
from .containers import containers
from .debug import DebugMaps, debug_maps
from .external import external_data
from .layout import lay_out
from .method import emit_method
from .pools import Pools

__all__ = ["EmitConfig", "EmittedProgram", "MemoryConfig", "emit_program"]


@dataclass(frozen=True)
class EmittedProgram:
    """A program as it is written, and what is known beside it.

    `external_data` are the .ptd files that go with it, by name without the ending. `debug` and
    `memory` are by method name.
    """

    program_file: ProgramFile
    external_data: Mapping[str, TensorData] = field(default_factory=dict)
    debug: Mapping[str, DebugMaps] = field(default_factory=dict)
    memory: Mapping[str, MemoryReport] = field(default_factory=dict)

    @property
    def debug_handle_map(self) -> dict[str, dict[int, int | tuple[int, ...]]]:
        """Per method: instruction → the debug handle of its node, or for a delegate all that it stands for."""
        return {method: dict(maps.debug_handles) for method, maps in self.debug.items()}

    @property
    def delegate_map(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Per method: instruction → the `name` of the backend called and its own `delegate_map`."""
        return {method: dict(maps.delegates) for method, maps in self.debug.items()}

    @property
    def instruction_id_to_num_outs_map(self) -> dict[str, dict[int, int]]:
        """Per method: instruction → how many results it writes."""
        return {method: dict(maps.output_counts) for method, maps in self.debug.items()}


def emit_program(
    programs: Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any] | None = None,
    config: EmitConfig = EmitConfig(),
) -> EmittedProgram:
    """Emit edge programs as the methods of one program, and `constant_methods` beside them.

    Methods are in the order of their names, so that the order in which they were made does not
    matter. Constants, delegates' blobs and named data of equal content are stored once.

    Raises:
        LoweringError: a method has something that the runtime or the file format cannot do.
    """
    constant_methods = constant_methods or {}
    clashes = sorted(programs.keys() & constant_methods.keys())
    if clashes:
        raise LoweringError(f"{clashes[0]!r} is both a method and a constant method")
    pools = Pools()
    plans, debug, memory = [], {}, {}
    for name in sorted(programs):
        method = emit_method(name, programs[name], pools, config)
        plan, memory[name] = assemble(method, containers(programs[name]))
        debug[name] = debug_maps(method)
        plans.append(plan)
    for name in sorted(constant_methods):
        plans.append(emit_constant_method(name, constant_methods[name], pools))
    return EmittedProgram(lay_out(plans, pools, config), external_data(pools), debug, memory)
