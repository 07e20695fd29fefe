"""Flatbuffers for tables that are described as data: frozen dataclass trees to bytes and back.

A table is a frozen dataclass whose fields are made with `slot`, which gives a field's number in
the table and its wire type. Reading trusts nothing: every offset and count is checked, and the
work is bounded by the length of the buffer.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from dataclasses import dataclass
from typing import Any, TypeVar

import flatbuffers

from ..errors import InvalidFileError

T = TypeVar("T")


@dataclass(frozen=True)
class Scalar:
    """A number of fixed width; `code` is struct's letter for it."""

    code: str

    @functools.cached_property
    def size(self) -> int:
        return struct.calcsize("<" + self.code)


BOOL, I8, U8, I32, U32, I64, U64, F64 = map(Scalar, "?bBiIqQd")


@dataclass(frozen=True)
class String:
    """UTF-8 text."""


@dataclass(frozen=True)
class Bytes:
    """Any bytes-like; it is read as a view of the buffer."""

    alignment: int = 1


@dataclass(frozen=True)
class Vector:
    """A sequence, in Python a tuple."""

    element: Scalar | String | type | OneOf


@dataclass(frozen=True)
class Union:
    """A value of one of several tables. It takes two slots: a number from 1, then the table."""

    members: tuple[type, ...]


@dataclass(frozen=True)
class OneOf:
    """A table that has nothing but a union in it; in Python just the union's value."""

    members: tuple[type, ...]


Kind = Scalar | String | Bytes | Vector | Union | OneOf | type


def slot(number: int, kind: Kind, default: Any = dataclasses.MISSING) -> Any:
    """A field of a table. Scalars default to zero, as on the wire; a default of None allows absence.

    All other fields must be in a file that is read, vectors too, although in Python they default
    to empty.
    """
    required = default is not None and not isinstance(kind, Scalar)
    if default is dataclasses.MISSING and isinstance(kind, Scalar):
        default = {"?": False, "d": 0.0}.get(kind.code, 0)
    elif default is dataclasses.MISSING and isinstance(kind, Vector):
        default = ()
    return dataclasses.field(default=default, metadata={"slot": number, "kind": kind, "required": required})


@dataclass(frozen=True)
class _Field:
    name: str
    slot: int
    kind: Kind
    required: bool


@functools.lru_cache(maxsize=None)
def _fields(table: type) -> tuple[_Field, ...]:
    return tuple(
        _Field(field.name, **field.metadata)
        for field in dataclasses.fields(table)
    )


@functools.lru_cache(maxsize=None)
def _slot_count(table: type) -> int:
    return max((f.slot + 1 + isinstance(f.kind, Union) for f in _fields(table)), default=0)


def encode(root: Any, identifier: bytes) -> bytes:
    """The flatbuffer of `root`, with a file identifier of four bytes. Equal parts are written once."""
    encoder = _Encoder()
    position = encoder.table(root)
    encoder.builder.Finish(position, file_identifier=identifier)
    return bytes(encoder.builder.Output())


class _Encoder:
    """Writes bottom-up; keeps for each part written its content and its place, to share equal parts."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self._places: dict[Any, int] = {}

    def table(self, value: Any) -> int:
        table = type(value)
        parts: list[tuple[_Field, Any]] = []
        for field in _fields(table):
            content = getattr(value, field.name)
            if content is None:
                continue
            if isinstance(field.kind, Scalar):
                # Packed, so that 0.0 and -0.0, or nan and nan, are told apart or not by their bits.
                parts.append((field, struct.pack("<" + field.kind.code, content)))
            elif isinstance(field.kind, Union):
                parts.append((field, (field.kind.members.index(type(content)) + 1, self.table(content))))
            else:
                parts.append((field, self.part(content, field.kind)))
        return self._shared((table, *((field.slot, part) for field, part in parts)), lambda: self._table(table, parts))

    def _table(self, table: type, parts: list[tuple[_Field, Any]]) -> int:
        builder = self.builder
        builder.StartObject(_slot_count(table))
        # Wide fields first, so that no padding is needed between narrow ones.
        for field, part in sorted(parts, key=lambda item: _width(item[0].kind), reverse=True):
            if isinstance(field.kind, Scalar):
                if any(part):
                    builder.Prep(len(part), 0)
                    _prepend_raw(builder, part)
                    builder.Slot(field.slot)
            elif isinstance(field.kind, Union):
                builder.PrependUOffsetTRelativeSlot(field.slot + 1, part[1], 0)
                builder.PrependUint8Slot(field.slot, part[0], 0)
            else:
                builder.PrependUOffsetTRelativeSlot(field.slot, part, 0)
        return builder.EndObject()

    def part(self, content: Any, kind: Kind) -> int:
        if isinstance(kind, Vector):
            return self._vector(content, kind)
        if isinstance(kind, Bytes):
            raw = bytes(content)
            return self._shared((kind, raw), lambda: self._raw_vector(raw, 1, kind.alignment))
        if isinstance(kind, String):
            return self._shared((kind, content), lambda: self.builder.CreateString(content))
        if isinstance(kind, OneOf):
            number, place = kind.members.index(type(content)) + 1, self.table(content)
            return self._shared((kind, number, place), lambda: self._one_of(number, place))
        return self.table(content)

    def _one_of(self, number: int, place: int) -> int:
        self.builder.StartObject(2)
        self.builder.PrependUOffsetTRelativeSlot(1, place, 0)
        self.builder.PrependUint8Slot(0, number, 0)
        return self.builder.EndObject()

    def _vector(self, items: Any, kind: Vector) -> int:
        element = kind.element
        if isinstance(element, Scalar):
            raw = struct.pack(f"<{len(items)}{element.code}", *items)
            return self._shared((kind, raw), lambda: self._raw_vector(raw, element.size, element.size))
        places = tuple(self.part(item, element) for item in items)
        return self._shared((kind, places), lambda: self._offset_vector(places))

    def _raw_vector(self, raw: bytes, width: int, alignment: int) -> int:
        self.builder.StartVector(width, len(raw) // width, alignment)
        _prepend_raw(self.builder, raw)
        return self.builder.EndVector()

    def _offset_vector(self, places: tuple[int, ...]) -> int:
        self.builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.builder.PrependUOffsetTRelative(place)
        return self.builder.EndVector()

    def _shared(self, content: Any, write: Any) -> int:
        place = self._places.get(content)
        if place is None:
            place = self._places[content] = write()
        return place


def _prepend_raw(builder: flatbuffers.Builder, raw: bytes) -> None:
    """Put bytes in front of what is written; the builder was told to make room for them."""
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw


def _width(kind: Kind) -> int:
    return kind.size if isinstance(kind, Scalar) else 4


def decode(buffer: memoryview, table: type[T], kind: str) -> T:
    """Read the root table of a flatbuffer; `kind` names the file's kind in errors.

    Raises:
        InvalidFileError: anything is out of bounds, missing or malformed.
    """
    decoder = _Decoder(buffer, kind)
    return decoder.table(decoder.offset(0), table)


# How many parts a buffer may stand for, per byte. Equal parts are shared, so a part may stand in
# several places, but a hostile file must not unfold into a tree of any size.
_PARTS_PER_BYTE = 64


class _Decoder:
    def __init__(self, buffer: memoryview, kind: str) -> None:
        self._buffer = buffer
        self._kind = kind
        self._seen: dict[Any, tuple[Any, int]] = {}  # (place, kind) → value, parts that it unfolds to
        self._parts = 0

    def fail(self, defect: str) -> InvalidFileError:
        return InvalidFileError(f"invalid {self._kind} file: {defect}")

    def number(self, place: int, code: str) -> Any:
        # A negative place would count from the end.
        if place < 0:
            raise self.fail("an offset points outside the file")
        try:
            return struct.unpack_from("<" + code, self._buffer, place)[0]
        except struct.error:
            raise self.fail("an offset points outside the file") from None

    def offset(self, place: int) -> int:
        return place + self.number(place, "I")

    def _once(self, key: Any, read: Any) -> Any:
        """Read each part once; count it as often as it is used."""
        known = self._seen.get(key)
        if known is None:
            before = self._parts
            value = read()
            self._count(1)
            self._seen[key] = (value, self._parts - before)
            return value
        self._count(known[1])
        return known[0]

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > _PARTS_PER_BYTE * len(self._buffer):
            raise self.fail("it unfolds to more than a file of its size can hold")

    def table(self, place: int, table: type[T]) -> T:
        return self._once((place, table), lambda: self._table(place, table))

    def _table(self, place: int, table: type[T]) -> T:
        slots = self._slots(place)
        values = {}
        for field in _fields(table):
            name = f"{table.__name__}.{field.name}"
            if isinstance(field.kind, Union):
                values[field.name] = self._union(slots, field.slot, field.kind.members, name)
            elif field.slot in slots:
                values[field.name] = self.part(slots[field.slot], field.kind)
            elif field.required:
                raise self.fail(f"{name} is missing")
        return table(**values)

    def _slots(self, place: int) -> dict[int, int]:
        """Where each field that is present lies."""
        vtable = place - self.number(place, "i")
        size, extent = self.number(vtable, "H"), self.number(vtable + 2, "H")
        if size < 4 or size % 2:
            raise self.fail("a table's layout is malformed")
        slots = {}
        for index in range((min(size, 4 + 2 * 64) - 4) // 2):
            offset = self.number(vtable + 4 + 2 * index, "H")
            if offset:
                if offset >= extent:
                    raise self.fail("a field lies outside its table")
                slots[index] = place + offset
        return slots

    def _union(self, slots: dict[int, int], slot: int, members: tuple[type, ...], name: str) -> Any:
        number = self.number(slots[slot], "B") if slot in slots else 0
        if not 1 <= number <= len(members):
            raise self.fail(f"{name} is of an unknown kind ({number})")
        member = members[number - 1]
        if slot + 1 not in slots:
            if _fields(member):
                raise self.fail(f"{name} is missing")
            return member()
        return self.table(self.offset(slots[slot + 1]), member)

    def part(self, place: int, kind: Kind) -> Any:
        if isinstance(kind, Scalar):
            return self.number(place, kind.code)
        target = self.offset(place)
        if isinstance(kind, Vector):
            return self._once((target, kind), lambda: self._vector(target, kind))
        if isinstance(kind, Bytes):
            return self._buffer[target + 4 : target + 4 + self._extent(target, 1)]
        if isinstance(kind, String):
            return self._once((target, kind), lambda: self._string(target))
        if isinstance(kind, OneOf):
            return self._once(
                (target, kind), lambda: self._union(self._slots(target), 0, kind.members, kind.members[0].__name__)
            )
        return self.table(target, kind)

    def _extent(self, place: int, width: int) -> int:
        """The number of elements of the vector at `place`, all of which lie in the file."""
        count = self.number(place, "I")
        if place + 4 + count * width > len(self._buffer):
            raise self.fail("a vector reaches beyond the end of the file")
        return count

    def _vector(self, place: int, kind: Vector) -> Any:
        element = kind.element
        count = self._extent(place, element.size if isinstance(element, Scalar) else 4)
        self._count(count)
        if isinstance(element, Scalar):
            return struct.unpack_from(f"<{count}{element.code}", self._buffer, place + 4)
        return tuple(self.part(place + 4 + 4 * index, element) for index in range(count))

    def _string(self, place: int) -> str:
        count = self._extent(place, 1)
        try:
            return bytes(self._buffer[place + 4 : place + 4 + count]).decode()
        except UnicodeDecodeError:
            raise self.fail("a string is not UTF-8") from None
