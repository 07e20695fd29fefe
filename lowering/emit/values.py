"""The values of a method while it is emitted: constants stored once, tensors with the memory they lie in."""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..format import schema
from ..format.schema import ScalarType


class Place(enum.Enum):
    """Who provides a storage's memory."""

    PLANNED = "planned"  # the method's activation memory
    STATE = "state"  # the program's memory for mutable buffers
    CONSTANT = "constant"
    EXTERNAL = "external"  # a constant in a .ptd file
    CALLER = "caller"  # whoever runs the method


@dataclass(eq=False)
class Storage:
    """Memory that one tensor, or several views of it, lie in; `index` is the pool's for a constant or state."""

    nbytes: int
    place: Place = Place.PLANNED
    index: int = 0
    name: str | None = None  # fully qualified, of state and external constants


@dataclass(eq=False)
class TensorValue:
    """A tensor. `sizes` are upper bounds if `dynamic`. `offset` is in bytes from the storage's start.

    A `rewired` tensor gets its address while the method runs, from the tensor that it is a view of.
    `initial` is the entry of the initial data that loading the method puts there; 0 for none.
    """

    scalar_type: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamic: bool
    storage: Storage
    offset: int = 0
    rewired: bool = False
    initial: int = 0

    @property
    def contiguous(self) -> bool:
        return self.dim_order == tuple(range(len(self.dim_order)))

    @property
    def addressable(self) -> bool:
        """Whether its place is known before the method runs."""
        return not self.rewired and self.storage.place in (Place.PLANNED, Place.STATE, Place.CONSTANT)


@dataclass
class ValueTable:
    """Values by index, as instructions refer to them. Equal constants are one value."""

    values: list[schema.Value | TensorValue] = field(default_factory=list)
    _constants: dict[object, int] = field(default_factory=dict)

    def add(self, value: schema.Value | TensorValue) -> int:
        """A value of its own: a tensor, a list of results, or a slot that an instruction fills."""
        self.values.append(value)
        return len(self.values) - 1

    def constant(self, value: None | bool | int | float | str) -> int:
        """A number, a text or None that nothing changes."""
        if value is None:
            return self._shared(schema.Null(), schema.Null)
        if isinstance(value, bool):
            return self._shared(schema.Bool(value), (bool, value))
        if isinstance(value, int):
            return self._shared(schema.Int(value), (int, value))
        if isinstance(value, float):
            return self._shared(schema.Double(value), (float, struct.pack("d", value)))  # -0.0 is not 0.0
        return self._shared(schema.Text(value), (str, value))

    def int_list(self, items: Sequence[int]) -> int:
        """A list of the integers whose values are `items`."""
        return self._shared(schema.IntList(tuple(items)), ("ints", *items))

    def double_list(self, items: Sequence[float]) -> int:
        return self._shared(schema.DoubleList(tuple(items)), ("doubles", struct.pack(f"{len(items)}d", *items)))

    def bool_list(self, items: Sequence[bool]) -> int:
        return self._shared(schema.BoolList(tuple(items)), ("bools", *items))

    def tensor(self, index: int) -> TensorValue:
        """The tensor at `index`."""
        value = self.values[index]
        assert isinstance(value, TensorValue), f"value {index} is {value}, not a tensor"
        return value

    def _shared(self, value: schema.Value, content: object) -> int:
        index = self._constants.get(content)
        if index is None:
            index = self._constants[content] = self.add(value)
        return index
