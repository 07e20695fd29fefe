"""A flatbuffer to tables, from anywhere: every offset and count is checked, and the work is bounded."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from ..errors import InvalidFileError
from .table import Bytes, Kind, OneOf, Scalar, String, Union, Vector, fields

T = TypeVar("T")


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
        for field in fields(table):
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
            if fields(member):
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
