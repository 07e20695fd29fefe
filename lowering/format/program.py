"""A .pte file as values: its tables, and the data of the segments that they refer to."""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from .container import Data, Segment
from .schema import BackendDelegate, BlobLocation, Program, SubsegmentOffsets

FILE_IDENTIFIER = b"ET12"
HEADER_MAGIC = b"eh00"
HEADER = struct.Struct("<4sIQQQ")
"""Magic, length, program size (with header), first segment's offset, size of all segments."""


@dataclass(frozen=True)
class ProgramFile:
    """`segments[i]` is what `program.segments[i]` describes."""

    program: Program
    segments: tuple[Segment, ...] = ()

    def constant(self, index: int) -> Data:
        """The bytes at constant `index`, up to where the next constant or the segment ends."""
        assert self.program.constant_segment is not None
        return self._entry(self.program.constant_segment, self._constant_starts, index)

    def initial_state(self, index: int) -> Data:
        """The bytes at entry `index` of the mutable data, up to where the next or the segment ends."""
        assert self.program.mutable_data_segments is not None
        return self._entry(self.program.mutable_data_segments[0], self._state_starts, index)

    @cached_property
    def _constant_starts(self) -> list[int]:
        return sorted(self.program.constant_segment.offsets) if self.program.constant_segment else []

    @cached_property
    def _state_starts(self) -> list[int]:
        return sorted(self.program.mutable_data_segments[0].offsets) if self.program.mutable_data_segments else []

    def _entry(self, table: SubsegmentOffsets, starts: list[int], index: int) -> Data:
        start = table.offsets[index]
        segment = self.segments[table.segment_index]
        following = bisect_right(starts, start)
        end = starts[following] if following < len(starts) else segment.size
        return segment_bytes(segment)[start:end]

    def delegate_blob(self, delegate: BackendDelegate) -> Data:
        """What the backend's compiler made for `delegate`."""
        if delegate.processed.location == BlobLocation.INLINE:
            assert self.program.backend_delegate_data is not None
            return self.program.backend_delegate_data[delegate.processed.index].data
        return segment_bytes(self.segments[delegate.processed.index])

    def named_data(self, key: str) -> Data:
        """The data stored under `key`.

        Raises:
            KeyError: there is no such key.
        """
        for entry in self.program.named_data or ():
            if entry.key == key:
                return segment_bytes(self.segments[entry.segment_index])
        raise KeyError(key)


def segment_bytes(segment: Segment) -> Data:
    """All of a segment's bytes; a view, where the segment is one part."""
    if len(segment.parts) == 1 and segment.parts[0][0] == 0 and len(segment.parts[0][1]) == segment.size:
        return segment.parts[0][1]
    content = bytearray(segment.size)
    for offset, data in segment.parts:
        content[offset : offset + len(data)] = data
    return bytes(content)
