"""The instructions of a method while it is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch.fx

from ..format import schema
from ..memory.reuse import Overwrite


@dataclass
class Code:
    """A method's instructions in order, each with the graph's node that it stands for."""

    instructions: list[schema.Instruction] = field(default_factory=list)
    nodes: list[torch.fx.Node | None] = field(default_factory=list)
    operators: dict[schema.Operator, int] = field(default_factory=dict)
    delegates: list[schema.BackendDelegate] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)  # first and last instruction of each body
    overwrites: list[Overwrite] = field(default_factory=list)  # in terms of values, not yet of storages
    node: torch.fx.Node | None = None  # what is being emitted

    @property
    def position(self) -> int:
        """The number of the next instruction."""
        return len(self.instructions)

    def kernel(self, name: str, overload: str | None, args: Sequence[int]) -> None:
        """Call a kernel; `args` end with the value of its result."""
        operator = schema.Operator(name, overload or "")
        index = self.operators.setdefault(operator, len(self.operators))
        self._add(schema.KernelCall(index, tuple(args)))

    def delegate(self, delegate: schema.BackendDelegate, args: Sequence[int]) -> None:
        """Call a delegate with its inputs and outputs."""
        self._add(schema.DelegateCall(len(self.delegates), tuple(args)))
        self.delegates.append(delegate)

    def move(self, source: int, target: int) -> None:
        """Make `target` the number that `source` is. (A tensor's handle would move, not its content.)"""
        self._add(schema.MoveCall(source, target))

    def jump_false(self, condition: int, destination: int = 0) -> int:
        """Go to `destination` if `condition` is false; returns where to `land` if that is not known yet."""
        self._add(schema.JumpFalseCall(condition, destination))
        return self.position - 1

    def land(self, jump: int) -> None:
        """Let the jump at instruction `jump` come out at the next instruction."""
        call = self.instructions[jump]
        assert isinstance(call, schema.JumpFalseCall)
        self.instructions[jump] = schema.JumpFalseCall(call.cond_value_index, self.position)

    def may_overwrite(self, result: int, operand: int) -> None:
        """The instruction just added may write tensor `result` over its operand `operand`."""
        self.overwrites.append(Overwrite(self.position - 1, result, operand))

    def _add(self, instruction: schema.Instruction) -> None:
        self.instructions.append(instruction)
        self.nodes.append(self.node)
