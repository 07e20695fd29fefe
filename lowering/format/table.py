"""Flatbuffer tables described as data: frozen dataclasses whose fields know their slot and wire type."""

from __future__ import annotations

import dataclasses
import functools
import struct
from dataclasses import dataclass
from typing import Any


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
class Field:
    """A dataclass field as the file knows it; `required` ones must be in a file that is read."""

    name: str
    slot: int
    kind: Kind
    required: bool


@functools.lru_cache(maxsize=None)
def fields(table: type) -> tuple[Field, ...]:
    """The fields of a table, in the order in which they are declared."""
    return tuple(Field(field.name, **field.metadata) for field in dataclasses.fields(table))


@functools.lru_cache(maxsize=None)
def slot_count(table: type) -> int:
    """How many slots a table has; a union takes two."""
    return max((f.slot + 1 + isinstance(f.kind, Union) for f in fields(table)), default=0)
