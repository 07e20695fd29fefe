"""The reference backend's compiler: a partition → a blob and named data."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch
from rules_executorch.lowering.delegation.backend import BackendDetails, CompileSpec, PreprocessResult
from rules_executorch.lowering.delegation.named_data import NamedDataStore
from rules_executorch.lowering.errors import LoweringError
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils._sympy.value_ranges import bound_sympy

from . import arena
from .blob import Blob, Constant, Instruction, Opcode, Place, Type, Value, ValueRef, serialize
from .operators import TYPES, Encoded, Unsupported, encode

BACKEND_ID = "ReferenceBackend"
_ITEM_BYTES = {Type.FLOAT32: 4, Type.INT64: 8, Type.BOOL: 1, Type.NUMBER: 0}


class ReferenceBackend(BackendDetails):
    """Compiles for runtime/backend.cc. It has no options."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition.

        Raises:
            LoweringError: an operator that the backend does not have, an option, a size without bound.
        """
        for spec in compile_specs:
            raise LoweringError(f"{BACKEND_ID} has no option {spec.key!r}", remedies=["leave compile_specs empty"])
        compiler = _Compiler(edge_program)
        blob = compiler.compile()
        return PreprocessResult(serialize(blob), compiler.debug_handles, compiler.store.output())


class _Compiler:
    """One walk over the graph that collects values and instructions; then memory is planned."""

    def __init__(self, program: ExportedProgram):
        self.program = program
        self.store = NamedDataStore()
        self.constants: dict[str, int] = {}  # key → index
        self.constant_bytes: list[Constant] = []
        self.values: list[Value] = []
        self.instructions: list[Instruction] = []
        self.debug_handles: dict[int, tuple[int, ...]] = {}
        self.value_of: dict[Node, int] = {}

    def compile(self) -> Blob:
        signature = self.program.graph_signature
        placeholders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        mutated = {spec.target for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}
        state: dict[str, int] = {}
        inputs = 0
        for node, spec in zip(placeholders, signature.input_specs):
            if spec.kind == InputKind.USER_INPUT:
                self._define(node, Place.INPUT, inputs)
                inputs += 1
            elif node.users or spec.target in mutated:
                place = Place.STATE if spec.target in mutated else Place.CONSTANT
                self._define(node, place, self._constant(spec.target))
                state[spec.target] = self.value_of[node]
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self._instruction(node)
        updates, outputs = [], 0
        for node, spec in zip(self.program.graph.output_node().args[0], signature.output_specs):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                updates.append((state[spec.target], self.value_of[node]))
            else:
                self._output(node, outputs)
                outputs += 1
        arena_bytes = self._plan(updates)
        return Blob(
            inputs, outputs, arena_bytes,
            tuple(self.constant_bytes), tuple(self.values), tuple(self.instructions), tuple(updates),
        )  # fmt: skip

    def _constant(self, name: str) -> int:
        """The index of a constant, whose bytes are named by their content: equal weights are stored once."""
        program = self.program
        tensor = program.state_dict[name] if name in program.state_dict else program.constants[name]
        tensor = tensor.detach().contiguous()
        key = self.store.add_by_content(tensor, alignment=arena.ALIGNMENT)
        if key not in self.constants:
            self.constants[key] = len(self.constant_bytes)
            self.constant_bytes.append(Constant(key, tensor.numel() * tensor.element_size()))
        return self.constants[key]

    def _define(self, node: Node, place: Place, index: int = 0) -> None:
        value = node.meta["val"]
        value = value[0] if isinstance(value, (tuple, list)) else value
        if isinstance(value, torch.Tensor):
            if value.dtype not in TYPES:
                raise LoweringError(f"{BACKEND_ID} has no tensors of {value.dtype}", node=node)
            made = Value(place, TYPES[value.dtype], tuple(self._bound(size, node) for size in value.shape), index)
        else:
            made = Value(place, Type.NUMBER, (), index)
        self.value_of[node] = len(self.values)
        self.values.append(made)

    def _bound(self, size: int | torch.SymInt, node: Node) -> int:
        """The largest that a size can be."""
        if isinstance(size, int):
            return size
        upper = bound_sympy(size.node.expr, self.program.range_constraints).upper
        if not upper.is_finite or upper >= 2**62:
            raise LoweringError(
                f"size {size} of {node.name} has no upper bound, and {BACKEND_ID} plans its memory at build time",
                node=node,
                remedies=["give the dimension a bound: torch.export.Dim(name, max=...)"],
            )
        return int(upper)

    def _instruction(self, node: Node) -> None:
        if node.target is operator.getitem:
            self.value_of[node] = self.value_of[node.args[0]]
            return
        try:
            encoded = encode(node)
        except Unsupported as reason:
            raise LoweringError(
                f"{BACKEND_ID} does not take {node.target}: {reason}",
                node=node,
                remedies=[
                    "delegate with ReferencePartitioner instead of the whole graph: this node then runs on the CPU",
                    "write the model with operators that the backend has (backends/reference/operators.py)",
                    "teach the backend this operator (backends/reference/README.md)",
                ],
            ) from None
        self._define(node, Place.ARENA)
        self._emit(encoded, self.value_of[node])
        if "debug_handle" in node.meta:
            self.debug_handles[len(self.instructions) - 1] = (node.meta["debug_handle"],)

    def _emit(self, encoded: Encoded, output: int) -> None:
        ints = (ValueRef(self.value_of[i]) if isinstance(i, Node) else i for i in encoded.ints)
        inputs = tuple(self.value_of[node] for node in encoded.inputs)
        self.instructions.append(Instruction(encoded.opcode, output, inputs, tuple(ints), encoded.floats))

    def _output(self, node: Node, index: int) -> None:
        """Let a node's value be output `index`: in place, or as a copy where it lives elsewhere already."""
        number = self.value_of[node]
        value = self.values[number]
        if value.place == Place.ARENA:
            self.values[number] = Value(Place.OUTPUT, value.type, value.bounds, index)
            return
        self.values.append(Value(Place.OUTPUT, value.type, value.bounds, index))
        if value.type == Type.NUMBER:
            copy = Instruction(Opcode.ADD_NUMBERS, len(self.values) - 1, (), (ValueRef(number), 0))
        else:
            copy = Instruction(Opcode.COPY, len(self.values) - 1, (number,))
        self.instructions.append(copy)

    def _plan(self, updates: Sequence[tuple[int, int]]) -> int:
        """Put the values of the arena at their offsets; returns the bytes of the arena."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step, instruction in enumerate(self.instructions):
            first[instruction.output] = step
            for number in (instruction.output, *instruction.inputs):
                last[number] = step
        for _, number in updates:
            last[number] = len(self.instructions)
        lifetimes = {
            number: arena.Lifetime(first[number], last[number], math.prod(value.bounds) * _ITEM_BYTES[value.type])
            for number, value in enumerate(self.values)
            if value.place == Place.ARENA and value.type != Type.NUMBER
        }
        offsets, arena_bytes = arena.plan(lifetimes)
        for number, offset in offsets.items():
            value = self.values[number]
            self.values[number] = Value(value.place, value.type, value.bounds, value.index, offset)
        return arena_bytes
