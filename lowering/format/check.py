"""The executable specification of a program file: what must hold before it is written or believed.

The runtime checks some of this when it loads a method, and aborts or misbehaves on the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..errors import InvalidFileError
from . import schema
from .program import ProgramFile
from .schema import BlobLocation, Dynamism, Location

MAX_RANK = 16
MAX_OPERATOR_NAME = 99  # characters, as "name.overload"


def check_program(program_file: ProgramFile) -> None:
    """Check that every reference is in range and every size is possible.

    Raises:
        InvalidFileError: it names the method and the defect, in one line.
    """
    program = program_file.program
    _check_segments(program_file)
    names: set[str] = set()
    for plan in program.execution_plan:
        _require(plan.name not in names, f"two methods are named {plan.name!r}")
        names.add(plan.name)
        _check_plan(plan, program_file)


def _require(condition: bool, defect: str) -> None:
    if not condition:
        raise InvalidFileError(f"invalid .pte file: {defect}")


def _check_segments(program_file: ProgramFile) -> None:
    program = program_file.program
    entries = program.segments or ()
    _require(len(entries) == len(program_file.segments), "the number of segments differs from their table's")
    for entry, segment in zip(entries, program_file.segments):
        _require((entry.offset, entry.size) == (segment.offset, segment.size), "a segment differs from its table entry")
    tables = [table for table in (program.constant_segment, *(program.mutable_data_segments or ())) if table]
    for table in tables:
        # A program without constants still has the placeholder entry, and then no segment.
        if any(table.offsets) or program_file.segments:
            _require(table.segment_index < len(entries), f"there is no segment {table.segment_index}")
            size = entries[table.segment_index].size
            _require(all(offset <= size for offset in table.offsets), "constant data lie outside their segment")
    for data in program.named_data or ():
        _require(data.segment_index < len(entries), f"named data {data.key!r} lie in no segment")


def _check_plan(plan: schema.ExecutionPlan, program_file: ProgramFile) -> None:
    where = f"method {plan.name!r}: "
    count = len(plan.values)
    _in_range(plan.inputs, count, where + "inputs")
    _in_range(plan.outputs, count, where + "outputs")
    _require(bool(plan.chains), where + "it has no chain of instructions")
    _require(all(size >= 0 for size in plan.non_const_buffer_sizes), where + "a memory has a negative size")
    for index, value in enumerate(plan.values):
        _check_value(value, index, plan, program_file, f"{where}value {index}: ")
    for operator in plan.operators:
        _require(len(str(operator)) <= MAX_OPERATOR_NAME, f"{where}operator name {str(operator)[:40]!r}... is too long")
    for delegate in plan.delegates:
        _check_delegate(delegate, program_file, where)
    for chain in plan.chains:
        for index, instruction in enumerate(chain.instructions):
            _check_instruction(instruction, plan, len(chain.instructions), f"{where}instruction {index}: ")


def _in_range(indices: Iterable[int], count: int, what: str, least: int = 0) -> None:
    for index in indices:
        _require(least <= index < count, f"{what} refer to {index}, of {count} there are")


def _check_value(
    value: schema.Value, index: int, plan: schema.ExecutionPlan, program_file: ProgramFile, where: str
) -> None:
    if isinstance(value, schema.Tensor):
        _check_tensor(value, plan, program_file, where)
    elif isinstance(value, schema.IntList):
        _in_range(value.items, len(plan.values), where + "items")
        # Computed sizes start as a placeholder of any number type and end up as Int.
        numbers = (schema.Int, schema.Bool, schema.Double)
        _require(all(isinstance(plan.values[item], numbers) for item in value.items), where + "items must be integers")
    elif isinstance(value, (schema.TensorList, schema.OptionalTensorList)):
        _in_range(value.items, index, where + "items", least=-1 if isinstance(value, schema.OptionalTensorList) else 0)
        items = [plan.values[item] for item in value.items if item >= 0]
        _require(all(isinstance(item, (schema.Tensor, schema.Null)) for item in items), where + "items must be tensors")


def _check_tensor(tensor: schema.Tensor, plan: schema.ExecutionPlan, program_file: ProgramFile, where: str) -> None:
    rank = len(tensor.sizes)
    _require(rank <= MAX_RANK, f"{where}a tensor has rank {rank}; at most {MAX_RANK} is possible")
    _require(sorted(tensor.dim_order) == list(range(rank)), where + "its dim order is no permutation of its dimensions")
    _require(all(size >= 0 for size in tensor.sizes), where + "a size is negative")
    _require(tensor.scalar_type in set(schema.ScalarType), f"{where}there is no scalar type {tensor.scalar_type}")
    _require(tensor.shape_dynamism in set(Dynamism), f"{where}there is no shape dynamism {tensor.shape_dynamism}")
    nbytes = tensor_nbytes(tensor)
    _require(nbytes < 1 << 63, where + "its size overflows")
    place = tensor.allocation_info
    if place is not None:
        _require(0 < place.memory_id < len(plan.non_const_buffer_sizes), f"{where}there is no memory {place.memory_id}")
        size = plan.non_const_buffer_sizes[place.memory_id]
        _require(place.offset + nbytes <= size, f"{where}it reaches beyond the end of memory {place.memory_id}")
    extra = tensor.extra_tensor_info
    if tensor.data_buffer_idx and not (extra and extra.location == Location.EXTERNAL):
        _check_data(tensor.data_buffer_idx, nbytes, place is not None, program_file, where)


def _check_data(index: int, nbytes: int, mutable: bool, program_file: ProgramFile, where: str) -> None:
    program = program_file.program
    if mutable:
        table = program.mutable_data_segments[0] if program.mutable_data_segments else None
    elif program.constant_buffer:
        return _require(index < len(program.constant_buffer), f"{where}there is no constant {index}")
    else:
        table = program.constant_segment
    kind = "initial state" if mutable else "constant"
    if table is None or index >= len(table.offsets):
        raise InvalidFileError(f"invalid .pte file: {where}there is no {kind} {index}")
    segment = program_file.segments[table.segment_index] if program_file.segments else None
    size = segment.size if segment else 0
    _require(table.offsets[index] + nbytes <= size, f"{where}its {kind} reaches beyond the end of the segment")


def tensor_nbytes(tensor: schema.Tensor) -> int:
    """The bytes that a tensor takes, at its upper bounds where its shape is dynamic."""
    return math.prod(tensor.sizes) * schema.ELEMENT_SIZE[schema.ScalarType(tensor.scalar_type)]


def _check_delegate(delegate: schema.BackendDelegate, program_file: ProgramFile, where: str) -> None:
    inline = delegate.processed.location == BlobLocation.INLINE
    homes: Sequence[object] = (program_file.program.backend_delegate_data or ()) if inline else program_file.segments
    _require(delegate.processed.index < len(homes), f"{where}the blob of delegate {delegate.id!r} is nowhere")


def _check_instruction(
    instruction: schema.Instruction, plan: schema.ExecutionPlan, instruction_count: int, where: str
) -> None:
    values = len(plan.values)
    if isinstance(instruction, schema.KernelCall):
        _in_range((instruction.op_index,), len(plan.operators), where + "operators")
        _in_range(instruction.args, values, where + "arguments")
    elif isinstance(instruction, schema.DelegateCall):
        _in_range((instruction.delegate_index,), len(plan.delegates), where + "delegates")
        _in_range(instruction.args, values, where + "arguments")
    elif isinstance(instruction, schema.MoveCall):
        _in_range((instruction.move_from, instruction.move_to), values, where + "values")
    elif isinstance(instruction, schema.JumpFalseCall):
        _in_range((instruction.cond_value_index,), values, where + "values")
        _in_range((instruction.destination_instruction,), instruction_count + 1, where + "destinations")
    else:
        _in_range((instruction.value_index,), values, where + "values")
