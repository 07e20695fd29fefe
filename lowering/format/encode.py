"""Tables to a flatbuffer. Equal parts are written once."""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers

from .table import Bytes, Field, Kind, OneOf, Scalar, String, Union, Vector, fields, slot_count


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
        parts: list[tuple[Field, Any]] = []
        for field in fields(table):
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

    def _table(self, table: type, parts: list[tuple[Field, Any]]) -> int:
        builder = self.builder
        builder.StartObject(slot_count(table))
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
