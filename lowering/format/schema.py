"""The tables of a .pte program, as ExecuTorch 1.4 reads them: each field with its slot and wire type.

Value objects, in the file's own terms: everything refers to everything else by index.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .table import BOOL, F64, I8, I32, I64, U8, U32, U64, Bytes, OneOf, String, Vector, slot


class ScalarType(enum.IntEnum):
    """Element types of tensors, by their number in the file."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT16 = 5
    FLOAT32 = 6
    FLOAT64 = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS1X8 = 18
    BITS2X4 = 19
    BITS4X2 = 20
    BITS8 = 21
    BITS16 = 22
    FLOAT8_E5M2 = 23
    FLOAT8_E4M3FN = 24
    FLOAT8_E5M2FNUZ = 25
    FLOAT8_E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29


_SIZES = {
    1: "UINT8 INT8 BOOL QINT8 QUINT8 QUINT4X2 QUINT2X4 BITS1X8 BITS2X4 BITS4X2 BITS8 "
    "FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E5M2FNUZ FLOAT8_E4M3FNUZ",
    2: "INT16 FLOAT16 BFLOAT16 UINT16 BITS16",
    4: "INT32 FLOAT32 QINT32 UINT32 COMPLEX32",
    8: "INT64 FLOAT64 UINT64 COMPLEX64",
    16: "COMPLEX128",
}
ELEMENT_SIZE = {ScalarType[name]: size for size, names in _SIZES.items() for name in names.split()}
"""Bytes per element of each scalar type."""


class Dynamism(enum.IntEnum):
    """Whether a tensor's shape can change at run time, and up to what."""

    STATIC = 0
    BOUNDED = 1
    UNBOUNDED = 2


class Location(enum.IntEnum):
    """Where data lie: for a tensor in the program or a .ptd, for a delegate's blob inline or in a segment."""

    SEGMENT = 0
    EXTERNAL = 1


class BlobLocation(enum.IntEnum):
    """Where a delegate's blob lies."""

    INLINE = 0
    SEGMENT = 1


@dataclass(frozen=True)
class AllocationDetails:
    """A place in one of a method's memories; the offset in bytes is split in two words."""

    memory_id: int = slot(0, U32)
    memory_offset_low: int = slot(1, U32)
    memory_offset_high: int = slot(2, U32)

    @property
    def offset(self) -> int:
        return self.memory_offset_high << 32 | self.memory_offset_low


def allocation(memory_id: int, offset: int) -> AllocationDetails:
    """The place `offset` bytes into memory `memory_id`."""
    return AllocationDetails(memory_id, offset & 0xFFFFFFFF, offset >> 32)


@dataclass(frozen=True)
class ExtraTensorInfo:
    mutable_data_segments_idx: int = slot(0, U64)
    fully_qualified_name: str | None = slot(1, String(), None)
    location: int = slot(2, I8)
    device_type: int = slot(3, I8)
    device_index: int = slot(4, I8)


@dataclass(frozen=True)
class Null:
    pass


@dataclass(frozen=True)
class Int:
    value: int = slot(0, I64)


@dataclass(frozen=True)
class Bool:
    value: bool = slot(0, BOOL)


@dataclass(frozen=True)
class Double:
    value: float = slot(0, F64)


@dataclass(frozen=True)
class Text:
    """A String value; named so to be told from the wire type."""

    value: str = slot(0, String())


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """`sizes` are upper bounds where the shape is dynamic; strides follow from sizes and `dim_order`."""

    scalar_type: int = slot(0, I8)
    storage_offset: int = slot(1, I32)
    sizes: tuple[int, ...] = slot(2, Vector(I32))
    dim_order: tuple[int, ...] = slot(3, Vector(U8))
    requires_grad: bool = slot(4, BOOL)
    data_buffer_idx: int = slot(5, U32)
    allocation_info: AllocationDetails | None = slot(6, AllocationDetails, None)
    layout: int = slot(7, I8)
    shape_dynamism: int = slot(8, I8)
    extra_tensor_info: ExtraTensorInfo | None = slot(9, ExtraTensorInfo, None)


@dataclass(frozen=True)
class IntList:
    """`items` are indices of Int values, so that any of them may be computed at run time."""

    items: tuple[int, ...] = slot(0, Vector(I64))


@dataclass(frozen=True)
class DoubleList:
    items: tuple[float, ...] = slot(0, Vector(F64))


@dataclass(frozen=True)
class BoolList:
    items: tuple[bool, ...] = slot(0, Vector(BOOL))


@dataclass(frozen=True)
class TensorList:
    """`items` are indices of Tensor values, all of which come before the list."""

    items: tuple[int, ...] = slot(0, Vector(I32))


@dataclass(frozen=True)
class OptionalTensorList:
    """As TensorList, with -1 for None."""

    items: tuple[int, ...] = slot(0, Vector(I32))


Value = Null | Int | Bool | Double | Tensor | Text | IntList | DoubleList | BoolList | TensorList | OptionalTensorList
VALUE = OneOf(
    (Null, Int, Bool, Double, Tensor, Text, IntList, DoubleList, BoolList, TensorList, OptionalTensorList)
)


@dataclass(frozen=True)
class KernelCall:
    op_index: int = slot(0, I32)
    args: tuple[int, ...] = slot(1, Vector(I32))


@dataclass(frozen=True)
class DelegateCall:
    delegate_index: int = slot(0, I32)
    args: tuple[int, ...] = slot(1, Vector(I32))


@dataclass(frozen=True)
class MoveCall:
    move_from: int = slot(0, I32)
    move_to: int = slot(1, I32)


@dataclass(frozen=True)
class JumpFalseCall:
    cond_value_index: int = slot(0, I32)
    destination_instruction: int = slot(1, I32)


@dataclass(frozen=True)
class FreeCall:
    value_index: int = slot(0, I32)


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall
INSTRUCTION = OneOf((KernelCall, DelegateCall, MoveCall, JumpFalseCall, FreeCall))


@dataclass(frozen=True, kw_only=True)
class Frame:
    filename: str = slot(0, String())
    lineno: int = slot(1, I32)
    name: str = slot(2, String())
    context: str = slot(3, String())


@dataclass(frozen=True)
class FrameList:
    items: tuple[Frame, ...] = slot(0, Vector(Frame))


@dataclass(frozen=True, kw_only=True)
class Chain:
    inputs: tuple[int, ...] | None = slot(0, Vector(I32), None)
    outputs: tuple[int, ...] | None = slot(1, Vector(I32), None)
    instructions: tuple[Instruction, ...] = slot(2, Vector(INSTRUCTION))
    stacktrace: tuple[FrameList, ...] | None = slot(3, Vector(FrameList), None)


@dataclass(frozen=True)
class ContainerMetadata:
    encoded_inp_str: str | None = slot(0, String(), None)
    encoded_out_str: str | None = slot(1, String(), None)


@dataclass(frozen=True)
class Operator:
    name: str = slot(0, String())
    overload: str | None = slot(1, String(), None)

    def __str__(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(frozen=True)
class BackendDelegateDataReference:
    location: int = slot(0, I8)
    index: int = slot(1, U32)


@dataclass(frozen=True)
class CompileSpec:
    key: str = slot(0, String())
    value: bytes | memoryview = slot(1, Bytes())


@dataclass(frozen=True)
class BackendDelegate:
    id: str = slot(0, String())
    processed: BackendDelegateDataReference = slot(1, BackendDelegateDataReference)
    compile_specs: tuple[CompileSpec, ...] | None = slot(2, Vector(CompileSpec), None)


@dataclass(frozen=True)
class NonConstBufferDevice:
    buffer_idx: int = slot(0, I32)
    device_type: int = slot(1, I8)
    device_index: int = slot(2, I8)


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan:
    """One method. `non_const_buffer_sizes[k]` is the size in bytes of memory k; memory 0 is reserved."""

    name: str = slot(0, String())
    container_meta_type: ContainerMetadata | None = slot(1, ContainerMetadata, None)
    values: tuple[Value, ...] = slot(2, Vector(VALUE))
    inputs: tuple[int, ...] = slot(3, Vector(I32))
    outputs: tuple[int, ...] = slot(4, Vector(I32))
    chains: tuple[Chain, ...] = slot(5, Vector(Chain))
    operators: tuple[Operator, ...] = slot(6, Vector(Operator))
    delegates: tuple[BackendDelegate, ...] = slot(7, Vector(BackendDelegate))
    non_const_buffer_sizes: tuple[int, ...] = slot(8, Vector(I64))
    non_const_buffer_device: tuple[NonConstBufferDevice, ...] | None = slot(9, Vector(NonConstBufferDevice), None)


@dataclass(frozen=True)
class Buffer:
    storage: bytes | memoryview = slot(0, Bytes(alignment=16))


@dataclass(frozen=True)
class BackendDelegateInlineData:
    data: bytes | memoryview = slot(0, Bytes(alignment=16))


@dataclass(frozen=True)
class DataSegment:
    """Where a segment lies: offset from the first segment's start, and size, in bytes."""

    offset: int = slot(0, U64)
    size: int = slot(1, U64)


@dataclass(frozen=True)
class SubsegmentOffsets:
    """Where entries start in a segment; entry 0 is reserved."""

    segment_index: int = slot(0, U32)
    offsets: tuple[int, ...] = slot(1, Vector(U64))


@dataclass(frozen=True)
class NamedData:
    key: str = slot(0, String())
    segment_index: int = slot(1, U32)


@dataclass(frozen=True, kw_only=True)
class Program:
    """The root table. `constant_buffer` is ExecuTorch's old way to store constants: read, never written."""

    version: int = slot(0, U32)
    execution_plan: tuple[ExecutionPlan, ...] = slot(1, Vector(ExecutionPlan))
    constant_buffer: tuple[Buffer, ...] | None = slot(2, Vector(Buffer), None)
    backend_delegate_data: tuple[BackendDelegateInlineData, ...] | None = slot(
        3, Vector(BackendDelegateInlineData), None
    )
    segments: tuple[DataSegment, ...] | None = slot(4, Vector(DataSegment), None)
    constant_segment: SubsegmentOffsets | None = slot(5, SubsegmentOffsets, None)
    mutable_data_segments: tuple[SubsegmentOffsets, ...] | None = slot(6, Vector(SubsegmentOffsets), None)
    named_data: tuple[NamedData, ...] | None = slot(7, Vector(NamedData), None)
