"""The delegate's tables as data: data types, kinds of nodes, and the slots of each kind's payload."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class DataType(IntEnum):
    """Types of values, as the delegate numbers them."""

    FLOAT32 = 1
    FLOAT16 = 2
    QINT8 = 3  # per tensor
    QUINT8 = 4
    QINT32 = 5
    QCINT8 = 6  # per channel
    QCINT32 = 7
    QCINT4 = 8
    QDINT8 = 9  # dynamic, one scale per row
    QBINT4 = 10  # one scale per group of a row
    INT32 = 11


ITEM_BYTES = {
    DataType.FLOAT32: 4, DataType.FLOAT16: 2, DataType.QINT8: 1, DataType.QUINT8: 1, DataType.QINT32: 4,
    DataType.QCINT8: 1, DataType.QCINT32: 4, DataType.QCINT4: 1, DataType.QDINT8: 1, DataType.QBINT4: 1,
    DataType.INT32: 4,
}  # fmt: skip

NO_VALUE = 0xFFFFFFFF
EXTERNAL_INPUT, EXTERNAL_OUTPUT = 1, 2

# Flags of nodes.
TRANSPOSE_B = 1
ALIGN_CORNERS = 8
KEEP_DIMS = 0x40

MAX_RANK = 6


@dataclass(frozen=True)
class Slot:
    """One field of a payload: the attribute or operand that fills it, and its type.

    Operands are named in0, in1, … and out0, …; types are u32, f32 and vectors of u32 (`[u32]`).
    """

    name: str
    type: str


@dataclass(frozen=True)
class Kind:
    """A kind of node: its number in the union of payloads, and its payload's slots in order."""

    number: int
    slots: tuple[Slot, ...]


def _kind(number: int, slots: str) -> Kind:
    pairs = (slot.partition(":") for slot in slots.split())
    return Kind(number, tuple(Slot(name, type_ or "u32") for name, _, type_ in pairs))


_UNARY = "in0 out0 flags"
_BINARY = "in0 in1 out0 flags"
_SLOPE = "alpha:f32 in0 out0 flags"
_PADDING = "padding_top padding_right padding_bottom padding_left"
_POOL = (
    _PADDING + " pooling_height pooling_width stride_height stride_width dilation_height dilation_width"
    " in0 out0 flags"
)
_CONV = (
    _PADDING + " kernel_height kernel_width subsampling_height subsampling_width dilation_height dilation_width"
    " group_input_channels group_output_channels groups adjustment_height adjustment_width in0 in1 in2 out0 flags"
)
_CAT = "axis in0 in1 in2 in3 out0 flags in4"

KINDS: dict[str, Kind] = {
    name: _kind(number, slots)
    for name, number, slots in (
        ("Add", 1, _BINARY),
        ("FullyConnected", 2, "in0 in1 in2 out0 flags"),
        ("Softmax", 3, _UNARY),
        ("Sigmoid", 4, _UNARY),
        ("StaticTranspose", 5, "num_dims perm:[u32] in0 out0 flags"),
        ("Clamp", 6, _UNARY),
        ("Conv2d", 7, _CONV),
        ("Div", 8, _BINARY),
        ("StaticResizeBilinear2D", 9, "new_height new_width in0 out0 flags"),
        ("StaticConstantPad", 10, "pre_paddings:[u32] post_paddings:[u32] padding_value:f32 in0 out0 flags"),
        ("AvgPooling2d", 11, _POOL),
        ("Minimum", 12, _BINARY),
        ("DepthwiseConv2d", 13, _CONV),
        ("MaxPooling2d", 14, _POOL),
        ("Multiply", 15, _BINARY),
        ("Subtract", 16, _BINARY),
        ("Floor", 17, _UNARY),
        ("Convert", 18, _UNARY),
        ("GlobalAvgPooling2d", 19, _UNARY),
        ("StaticReshape", 20, "num_dims new_shape:[u32] in0 out0 flags"),
        ("ArgMaxPooling2d", 21, _PADDING + " pooling_height pooling_width in0 out0 out1 flags"),
        ("SquareRoot", 22, _UNARY),
        ("Ceiling", 23, _UNARY),
        ("Hardswish", 24, _UNARY),
        ("LeakyReLU", 25, _SLOPE),
        ("Maximum", 26, _BINARY),
        ("Negate", 27, _UNARY),
        ("Square", 28, _UNARY),
        ("ELU", 29, _SLOPE),
        ("Abs", 30, _UNARY),
        ("PReLU", 31, _BINARY),
        ("Concatenate2", 32, _CAT),
        ("Concatenate3", 33, _CAT),
        ("Concatenate4", 34, _CAT),
        ("StaticSlice", 35, "num_dims offsets:[u32] sizes:[u32] in0 out0 flags"),
        ("BatchMatrixMultiply", 37, _BINARY),
        ("Concatenate5", 38, _CAT),
        ("ConvTranspose2d", 39, _CONV),
        ("ReciprocalSquareRoot", 40, _UNARY),
        ("Log", 41, _UNARY),
        ("Gelu", 42, _UNARY),
        ("Tanh", 43, _UNARY),
        ("Exp", 44, _UNARY),
        ("Sin", 45, _UNARY),
        ("Copy", 46, _UNARY),
        ("Cos", 47, _UNARY),
    )
}
