"""What the methods of a program share: constants, state and delegates' blobs, each content stored once."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..delegation.named_data import NamedDataStore, content_key, tensor_bytes
from ..errors import LoweringError
from ..format.container import Data, align
from .dtypes import scalar_type


@dataclass
class ConstantPool:
    """Entries of the constant segment, from 1: entry 0 means none."""

    data: list[Data] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)  # per entry: which data, and how many bytes into it
    _by_place: dict[tuple[int, int], int] = field(default_factory=dict)
    _by_content: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _by_memory: dict[tuple[int, int], int] = field(default_factory=dict)
    _kept: list[Data] = field(default_factory=list)  # so that no address in _by_memory is used again

    def add(self, tensor: torch.Tensor) -> int:
        """The entry of a dense tensor's bytes; equal bytes share one."""
        view = tensor_bytes(tensor)
        memory = (tensor.data_ptr(), len(view))
        if memory not in self._by_memory:  # the same memory is not hashed again
            self._by_memory[memory] = self._by_content.setdefault(content_key(tensor), len(self.data))
            if self._by_memory[memory] == len(self.data):
                self.data.append(view)
            else:
                self._kept.append(view)
        return self._entry(self._by_memory[memory], 0)

    def find(self, content: tuple[int, bytes]) -> int | None:
        """Which of `data` has this content (see content_key); None for none."""
        return self._by_content.get(content)

    def inside(self, entry: int, offset: int) -> int:
        """The entry of what lies `offset` bytes into an entry."""
        data, start = self.places[entry - 1]
        return self._entry(data, start + offset)

    def _entry(self, data: int, offset: int) -> int:
        place = (data, offset)
        if place not in self._by_place:
            self.places.append(place)
            self._by_place[place] = len(self.places)
        return self._by_place[place]


@dataclass(frozen=True)
class StateSlot:
    """A mutable buffer's place in the memory for state, and its entry in the initial data."""

    offset: int
    nbytes: int
    entry: int


@dataclass
class StatePool:
    """Places of mutable buffers, disjoint throughout the program, and their initial values.

    All methods of a loaded program may run in one set of memories, so that two methods' state must
    not overlap unless it is meant to be one.
    """

    slots: list[StateSlot] = field(default_factory=list)
    initial: list[Data] = field(default_factory=list)  # entries of the mutable segment, from 1
    end: int = 0
    _shared: dict[str, tuple[int, torch.dtype, torch.Size]] = field(default_factory=dict)

    def add(self, name: str, initial: torch.Tensor, shared: bool, alignment: int) -> int:
        """The slot of a method's buffer. With `shared`, methods that share a name share the place.

        What loading a second method must not do is to undo what the first has written. So a shared
        buffer of zeros has no initial value: memory for state is zero at first, as ExecuTorch's own
        shared buffers rely on. Any other is brought by the first method alone, by name, which is
        then to be loaded before another is run.

        Raises:
            LoweringError: a shared buffer has another dtype or shape in another method.
        """
        kind = (initial.dtype, initial.shape)
        if shared and name in self._shared:
            index, *known = self._shared[name]
            if tuple(known) != kind:
                raise LoweringError(
                    f"buffer {name!r} is shared by methods but is {known[0]} {tuple(known[1])} in one "
                    f"and {kind[0]} {tuple(kind[1])} in another"
                )
            first = self.slots[index]
            self.slots.append(StateSlot(first.offset, first.nbytes, 0))
            return len(self.slots) - 1
        view = tensor_bytes(initial)
        stored = not (shared and is_zero(view))
        if stored:
            self.initial.append(view)
        self.slots.append(StateSlot(self.end, len(view), len(self.initial) if stored else 0))
        self.end = align(self.end + len(view), alignment)
        if shared:
            self._shared[name] = (len(self.slots) - 1, *kind)
        return len(self.slots) - 1


@dataclass
class BlobPool:
    """Delegates' blobs; equal ones are stored once."""

    blobs: list[bytes] = field(default_factory=list)
    _index: dict[bytes, int] = field(default_factory=dict)

    def add(self, blob: bytes) -> int:
        index = self._index.setdefault(blob, len(self.blobs))
        if index == len(self.blobs):
            self.blobs.append(blob)
        return index


@dataclass(frozen=True)
class ExternalTensor:
    """A constant that lies in a .ptd file, dense in `dim_order`."""

    data: torch.Tensor
    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]


@dataclass
class ExternalPool:
    """Constants that go to .ptd files, by tag and fully qualified name."""

    tensors: dict[str, dict[str, ExternalTensor]] = field(default_factory=dict)

    def add(self, tag: str, name: str, tensor: torch.Tensor, dim_order: tuple[int, ...]) -> None:
        """Raises LoweringError if the name stands for another tensor already."""
        dense = tensor.permute(dim_order)
        entry = ExternalTensor(dense, scalar_type(tensor.dtype), tuple(tensor.shape), dim_order)
        for other, entries in self.tensors.items():
            known = entries.get(name)
            if known is None:
                continue
            same = (known.scalar_type, known.sizes, known.dim_order) == (entry.scalar_type, entry.sizes, dim_order)
            if other != tag or not same or content_key(known.data) != content_key(dense):
                raise LoweringError(f"constant {name!r} stands for different external data in {other!r} and {tag!r}")
            return
        self.tensors.setdefault(tag, {})[name] = entry


@dataclass
class Pools:
    """All that the methods of one program share."""

    constants: ConstantPool = field(default_factory=ConstantPool)
    state: StatePool = field(default_factory=StatePool)
    blobs: BlobPool = field(default_factory=BlobPool)
    external: ExternalPool = field(default_factory=ExternalPool)
    named_data: NamedDataStore = field(default_factory=NamedDataStore)


def is_zero(data: Data) -> bool:
    """Whether all bytes are zero."""
    return not any(data.tobytes().strip(b"\0")) if isinstance(data, memoryview) else not any(data)


def dense(tensor: torch.Tensor, dim_order: tuple[int, ...]) -> torch.Tensor:
    """`tensor` with its dimensions in `dim_order`, contiguous: a view where it is dense already."""
    return tensor.detach().permute(dim_order).contiguous()
