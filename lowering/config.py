"""Options of the public API, under ExecuTorch's names and with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from .emit.config import EmitConfig, MemoryConfig
from .operators import OperatorSet, stock

# A pass over a method's graph: it may change the graph in place (and return None), or return a new one.
Pass = Callable[[GraphModule], "PassResult | GraphModule | None"]


@dataclass(frozen=True)
class EdgeCompileConfig:
    """How exported programs become edge programs.

    `preserve_ops` stay whole although they have a decomposition; `_core_aten_ops_exception_list`
    may appear although the target runtime has no kernel for them. With `_check_ir_validity` off,
    an operator without a kernel is found only when the program is emitted. `operators` are the
    kernels of the target runtime: what it lacks is decomposed, delegated or refused.
    """

    _check_ir_validity: bool = True
    _core_aten_ops_exception_list: Sequence[torch._ops.OpOverload] = ()
    preserve_ops: Sequence[torch._ops.OpOverload] = ()
    operators: OperatorSet = stock


MemoryPlanningPass = MemoryConfig  # ExecuTorch's name for it


@dataclass(frozen=True)
class ExecutorchBackendConfig:
    """How edge programs become a .pte.

    `memory_planning_pass` is one for all methods, or one per method name. `external_constants` puts
    constants into a .ptd file beside the program: all of them, or those for which the function returns
    the file's tag. Alignments are in bytes; None stands for the format's own 16.
    """

    passes: Sequence[Pass] = ()
    memory_planning_pass: MemoryConfig | Mapping[str, MemoryConfig] = field(default_factory=MemoryConfig)
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    external_constants: bool | Callable[[Node], str | None] = False
    emit_mutable_buffer_names: bool = False

    def emit_config(self, operators: OperatorSet = stock) -> EmitConfig:
        """The part of this that emission takes, for a runtime that has `operators`."""
        optional = {
            "constant_tensor_alignment": self.constant_tensor_alignment,
            "delegate_alignment": self.delegate_alignment,
        }
        return EmitConfig(
            memory=self.memory_planning_pass,
            external_constants=self.external_constants,
            emit_mutable_buffer_names=self.emit_mutable_buffer_names,
            emit_stacktrace=self.emit_stacktrace,
            extract_delegate_segments=self.extract_delegate_segments,
            segment_alignment=self.segment_alignment,
            operators=operators,
            **{name: value for name, value in optional.items() if value is not None},
        )
