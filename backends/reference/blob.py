"""The reference backend's compiled form: what it says, and its bytes.

Little endian, no padding, in this order:

    header        magic "RXBE", u16 version, u16 zero, u64 arena bytes,
                  u32 counts of: inputs, outputs, constants, values, instructions, updates
    constants     each: u64 bytes, u16 length of key, key in UTF-8 (a key of the program's named data)
    values        each: u8 place, u8 type, u16 rank, u32 index, u64 offset, i64 upper bound per dimension
    instructions  each: u16 opcode, u16 inputs, u16 ints, u16 floats, u32 output value,
                  u32 value per input, (u8 is_value, i64 literal or value) per int, f64 per float
    updates       each: u32 state value, u32 value that it gets at the end of an execution

A value's `index` is its position among the call's inputs or outputs, or its constant's; `offset` is
its place in the arena. The device runtime reads the same (runtime/blob.h), and refuses other versions.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

MAGIC = b"RXBE"
VERSION = 1

_HEADER = struct.Struct("<4sHHQ6I")
_CONSTANT = struct.Struct("<QH")
_VALUE = struct.Struct("<BBHIQ")
_INSTRUCTION = struct.Struct("<4HI")
_INT = struct.Struct("<Bq")
_UPDATE = struct.Struct("<II")


class Place(IntEnum):
    """Where a value lives."""

    INPUT = 0
    OUTPUT = 1
    ARENA = 2
    CONSTANT = 3
    STATE = 4  # memory of the delegate's own, which starts as a constant


class Type(IntEnum):
    """What a value is: a tensor of a scalar type (with ExecuTorch's numbers), or a single integer."""

    INT64 = 4
    FLOAT32 = 6
    BOOL = 11
    NUMBER = 255


class Opcode(IntEnum):
    """Instructions. The comment gives the operands beside the output: tensors; ints; floats."""

    SIZE = 0  # tensor; dimension → number
    ADD_NUMBERS = 1  # ; a, b → number
    SUB_NUMBERS = 2
    MUL_NUMBERS = 3
    FLOORDIV_NUMBERS = 4
    COPY = 10  # tensor
    RESHAPE = 11  # tensor; size per dimension, one may be -1
    PERMUTE = 12  # tensor; dimension of the input per dimension
    EXPAND = 13  # tensor; size per dimension, -1 for the input's
    SLICE = 14  # tensor; dimension, start, end, step
    SELECT = 15  # tensor; dimension, index
    CAT = 16  # tensors; dimension
    UNSQUEEZE = 17  # tensor; dimension
    SQUEEZE = 18  # tensor; dimensions
    ADD = 30  # a, b; ; alpha — or a; ; scalar. So are all that follow up to GREATER_EQUAL
    SUB = 31
    MUL = 32
    DIV = 33
    MAXIMUM = 34
    MINIMUM = 35
    EQUAL = 40  # → bool, up to GREATER_EQUAL
    NOT_EQUAL = 41
    LESS = 42
    LESS_EQUAL = 43
    GREATER = 44
    GREATER_EQUAL = 45
    LOGICAL_AND = 50
    LOGICAL_OR = 51
    LOGICAL_NOT = 52
    WHERE = 53  # condition, a, b
    MASKED_FILL = 54  # a, mask; ; value
    RELU = 60
    TANH = 61
    SIGMOID = 62
    GELU = 63  # tensor; 1 for the tanh approximation
    EXP = 64
    NEG = 65
    ABS = 66
    SQRT = 67
    RSQRT = 68
    SOFTMAX = 80  # tensor; dimension
    LAYER_NORM = 81  # tensor[, weight][, bias]; normalised dimensions, has weight, has bias; epsilon
    EMBEDDING = 82  # weight, indices
    LINEAR = 83  # tensor[…, in], weight[out, in][, bias[out]]
    MATMUL = 84  # a[…, n, k], b[…, k, m] of equal leading sizes


@dataclass(frozen=True)
class ValueRef:
    """An integer operand that is a NUMBER value."""

    value: int


@dataclass(frozen=True)
class Constant:
    """Bytes that the runtime finds in the program's named data."""

    key: str
    nbytes: int


@dataclass(frozen=True)
class Value:
    """A tensor, or a number; `bounds` are upper bounds of its sizes."""

    place: Place
    type: Type
    bounds: tuple[int, ...] = ()
    index: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Instruction:
    """One operation; `output` and `inputs` are values' indices."""

    opcode: Opcode
    output: int
    inputs: tuple[int, ...] = ()
    ints: tuple[int | ValueRef, ...] = ()
    floats: tuple[float, ...] = ()


@dataclass(frozen=True)
class Blob:
    """A compiled partition."""

    inputs: int
    outputs: int
    arena_bytes: int
    constants: tuple[Constant, ...]
    values: tuple[Value, ...]
    instructions: tuple[Instruction, ...]
    updates: tuple[tuple[int, int], ...] = ()


def serialize(blob: Blob) -> bytes:
    """The bytes of a blob; the same for the same blob."""
    counts = map(len, (blob.constants, blob.values, blob.instructions, blob.updates))
    out = bytearray(_HEADER.pack(MAGIC, VERSION, 0, blob.arena_bytes, blob.inputs, blob.outputs, *counts))
    for constant in blob.constants:
        key = constant.key.encode()
        out += _CONSTANT.pack(constant.nbytes, len(key)) + key
    for value in blob.values:
        out += _VALUE.pack(value.place, value.type, len(value.bounds), value.index, value.offset)
        out += struct.pack(f"<{len(value.bounds)}q", *value.bounds)
    for instruction in blob.instructions:
        inputs, ints, floats = instruction.inputs, instruction.ints, instruction.floats
        out += _INSTRUCTION.pack(instruction.opcode, len(inputs), len(ints), len(floats), instruction.output)
        out += struct.pack(f"<{len(inputs)}I", *inputs)
        for operand in ints:
            out += _INT.pack(1, operand.value) if isinstance(operand, ValueRef) else _INT.pack(0, operand)
        out += struct.pack(f"<{len(floats)}d", *floats)
    for state, value in blob.updates:
        out += _UPDATE.pack(state, value)
    return bytes(out)


def deserialize(data: bytes) -> Blob:
    """The blob that `serialize` wrote.

    Raises:
        ValueError: the bytes are not a blob of this version.
    """
    try:
        return _deserialize(memoryview(data))
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"not a blob of the reference backend: {error}") from error


def _deserialize(data: memoryview) -> Blob:
    position = 0

    def take(layout: struct.Struct | str) -> tuple:
        nonlocal position
        layout = struct.Struct(layout) if isinstance(layout, str) else layout
        fields = layout.unpack_from(data, position)
        position += layout.size
        return fields

    magic, version, zero, arena_bytes, inputs, outputs, *counts = take(_HEADER)
    if (magic, version, zero) != (MAGIC, VERSION, 0):
        raise ValueError(f"not a blob of the reference backend, version {VERSION}")
    constants, values, instructions, updates = [], [], [], []
    for _ in range(counts[0]):
        nbytes, length = take(_CONSTANT)
        constants.append(Constant(take(f"<{length}s")[0].decode(), nbytes))
    for _ in range(counts[1]):
        place, kind, rank, index, offset = take(_VALUE)
        values.append(Value(Place(place), Type(kind), take(f"<{rank}q"), index, offset))
    for _ in range(counts[2]):
        opcode, n_inputs, n_ints, n_floats, output = take(_INSTRUCTION)
        operands = take(f"<{n_inputs}I")
        ints = [take(_INT) for _ in range(n_ints)]
        instructions.append(
            Instruction(
                Opcode(opcode), output, operands,
                tuple(ValueRef(number) if is_value else number for is_value, number in ints), take(f"<{n_floats}d"),
            )
        )  # fmt: skip
    for _ in range(counts[3]):
        updates.append(take(_UPDATE))
    if position != len(data):
        raise ValueError("bytes after the end of a blob of the reference backend")
    return Blob(inputs, outputs, arena_bytes, *map(tuple, (constants, values, instructions, updates)))
