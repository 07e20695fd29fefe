"""What can be chosen when a program is emitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch.fx

from ..operators import OperatorSet, stock

DEFAULT_EXTERNAL_TAG = "_default_external_constant"
"""The .ptd file, without its ending, that constants go to where no other is said."""


@dataclass(frozen=True)
class MemoryConfig:
    """How one method's memory is planned.

    With `alloc_graph_input` off, inputs are used where the caller has them, without a copy. With
    `alloc_graph_output` off, the caller says where outputs go. `share_mutable_buffers` gives a
    buffer one place in all methods that say so, so that one method reads what another wrote.
    `alignment` is that of planned tensors, in bytes.
    """

    alloc_graph_input: bool = True
    alloc_graph_output: bool = True
    share_mutable_buffers: bool = False
    alignment: int = 16


@dataclass(frozen=True)
class EmitConfig:
    """How edge programs become a program file.

    `memory` is for all methods, or by method name (others take the defaults). `external_constants`
    puts constants into .ptd files beside the program: all of them, or those placeholders for which
    the function returns a file's tag. `emit_mutable_buffer_names` stores the names of state tensors.
    `emit_stacktrace` stores the model's source lines beside the instructions. With
    `extract_delegate_segments` off, delegates' blobs lie among the tables. Alignments are in bytes.
    `operators` names the kernels of operators of which PyTorch knows no out-variant.
    """

    memory: MemoryConfig | Mapping[str, MemoryConfig] = field(default_factory=MemoryConfig)
    external_constants: bool | Callable[[torch.fx.Node], str | None] = False
    emit_mutable_buffer_names: bool = False
    emit_stacktrace: bool = False
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int = 16
    delegate_alignment: int = 1
    operators: OperatorSet = stock

    def memory_of(self, method: str) -> MemoryConfig:
        """The memory options of one method."""
        return self.memory if isinstance(self.memory, MemoryConfig) else self.memory.get(method, MemoryConfig())

    def external_tag(self, node: torch.fx.Node) -> str | None:
        """The .ptd file that the constant of placeholder `node` goes to; None for the program itself."""
        if callable(self.external_constants):
            return self.external_constants(node)
        return DEFAULT_EXTERNAL_TAG if self.external_constants else None
