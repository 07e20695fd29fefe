"""Options of the public API, under ExecuTorch's names and with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

# A pass over a method's graph: it may change the graph in place (and return None), or return a new one.
Pass = Callable[[GraphModule], "PassResult | GraphModule | None"]


@dataclass(frozen=True)
class EdgeCompileConfig:
    """How exported programs become edge programs.

    `preserve_ops` stay whole although they have a decomposition; `_core_aten_ops_exception_list`
    may appear although the target runtime has no kernel for them. With `_check_ir_validity` off,
    an operator without a kernel is found only when the program is emitted.
    """

    _check_ir_validity: bool = True
    _core_aten_ops_exception_list: Sequence[torch._ops.OpOverload] = ()
    preserve_ops: Sequence[torch._ops.OpOverload] = ()


@dataclass(frozen=True)
class MemoryPlanningPass:
    """How memory is planned.

    With `alloc_graph_input` off, a method's inputs are used where the caller has them, without a copy;
    with `alloc_graph_output` off, the caller says where outputs go. `share_mutable_buffers` gives
    buffers of one name one place in memory in all methods, so that one method reads what another wrote.
    """

    alloc_graph_input: bool = True
    alloc_graph_output: bool = True
    share_mutable_buffers: bool = False
    alignment: int = 16


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """How edge programs become a .pte.

    `memory_planning_pass` is one for all methods, or one per method name. `external_constants` puts
    constants into a .ptd file beside the program: all of them, or those for which the function returns
    the file's tag. Alignments are in bytes; None stands for the format's own 16.
    """

    passes: Sequence[Pass] = ()
    memory_planning_pass: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    external_constants: bool | Callable[[Node], str | None] = False
    emit_mutable_buffer_names: bool = False
