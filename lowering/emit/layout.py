"""Where the data of a program lie: its segments, and the tables that point into them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ..delegation.named_data import NamedDataStoreOutput, tensor_bytes
from ..format import schema
from ..format.container import Data, Segment, align
from ..format.program import ProgramFile
from ..format.schema import BlobLocation
from .config import EmitConfig
from .pools import ConstantPool, Pools, StatePool, is_zero

_STATE_ALIGNMENT = 16


def lay_out(plans: Sequence[schema.ExecutionPlan], pools: Pools, config: EmitConfig) -> ProgramFile:
    """The program file of `plans`. Segments: constants, initial state, delegates' blobs, named data.

    Named data that are a constant as well (such as a table that one method embeds with and a delegate
    multiplies with) are a segment within that of the constants.
    """
    segments = _Segments(config.segment_alignment)
    named = pools.named_data.output()
    alignments = _named_alignments(named)
    shared = {
        buffer: data
        for buffer in alignments
        if (data := pools.constants.find(pools.named_data.contents[buffer])) is not None
    }
    wanted = {data: alignments[buffer] for buffer, data in shared.items()}
    starts, constants = _constants(pools.constants, segments, config.constant_tensor_alignment, wanted)
    state = _state(pools.state, segments)
    blobs, inline = _blobs(pools.blobs.blobs, segments, config)
    within = {buffer: starts[data] for buffer, data in shared.items()}
    named_data = _named_data(named, alignments, within, segments)
    program = schema.Program(
        execution_plan=tuple(_with_blobs(plan, blobs) for plan in plans),
        backend_delegate_data=inline or None,
        segments=tuple(schema.DataSegment(s.offset, s.size) for s in segments.segments) or None,
        constant_segment=constants,
        mutable_data_segments=(state,) if state else None,
        named_data=named_data or None,
    )
    return ProgramFile(program, tuple(segments.segments))


class _Segments:
    """Segments one behind the other, some of them within the first."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.segments: list[Segment] = []
        self._end = 0

    def add(self, size: int, parts: Sequence[tuple[int, Data]], alignment: int = 1) -> int:
        """The index of a new segment."""
        offset = align(self._end, math.lcm(self._alignment, alignment))
        self._end = offset + size
        self.segments.append(Segment(offset, size, tuple(parts)))
        return len(self.segments) - 1

    def add_within(self, offset: int, data: Data) -> int:
        """The index of a segment for `data` that lie `offset` bytes into the first one already."""
        self.segments.append(Segment(self.segments[0].offset + offset, len(data), ((0, data),)))
        return len(self.segments) - 1


def _constants(
    pool: ConstantPool, segments: _Segments, alignment: int, wanted: Mapping[int, int]
) -> tuple[Sequence[int], schema.SubsegmentOffsets]:
    """Where each of the pool's data starts in their segment, and the table; `wanted` are further alignments by data."""
    starts: list[int] = []
    end = 0
    for index, data in enumerate(pool.data):
        starts.append(align(end, math.lcm(alignment, wanted.get(index, 1))))
        end = align(starts[-1] + len(data), alignment)
    # The table must be there even if there are no constants; its first entry stands for none. And constants,
    # also those without elements, must be in a segment, which the format does not allow to be empty.
    most = math.lcm(alignment, *wanted.values())
    segment = segments.add(max(end, 1), list(zip(starts, pool.data)), most) if pool.data else 0
    return starts, schema.SubsegmentOffsets(segment, (0, *(starts[data] + offset for data, offset in pool.places)))


def _state(pool: StatePool, segments: _Segments) -> schema.SubsegmentOffsets | None:
    """Initial values; equal ones are stored once, and all that are zero lie in the largest of these."""
    if not pool.initial:
        return None
    zeros = max((len(data) for data in pool.initial if is_zero(data)), default=0)
    starts: dict[bytes, int] = {}
    parts: list[tuple[int, Data]] = []
    offsets, end = [0], align(zeros, _STATE_ALIGNMENT)
    for data in pool.initial:
        content = bytes(data)
        if is_zero(data):
            offsets.append(0)
            continue
        if content not in starts:
            starts[content] = end
            parts.append((end, data))
            end = align(end + len(data), _STATE_ALIGNMENT)
        offsets.append(starts[content])
    return schema.SubsegmentOffsets(segments.add(end, parts), tuple(offsets))


def _blobs(
    blobs: Sequence[bytes], segments: _Segments, config: EmitConfig
) -> tuple[list[schema.BackendDelegateDataReference], tuple[schema.BackendDelegateInlineData, ...]]:
    """Where each blob lies. The runtime takes an empty one only inline."""
    places, inline = [], []
    for blob in blobs:
        if blob and config.extract_delegate_segments:
            index = segments.add(len(blob), [(0, blob)], config.delegate_alignment)
            places.append(schema.BackendDelegateDataReference(BlobLocation.SEGMENT, index))
        else:
            places.append(schema.BackendDelegateDataReference(BlobLocation.INLINE, len(inline)))
            inline.append(schema.BackendDelegateInlineData(blob))
    return places, tuple(inline)


def _named_alignments(named: NamedDataStoreOutput) -> dict[int, int]:
    """For each buffer that goes into the program, an alignment that suits all of its keys."""
    alignments: dict[int, int] = {}
    for entry in named.pte_data.values():
        alignments[entry.buffer_index] = math.lcm(alignments.get(entry.buffer_index, 1), entry.alignment)
    return alignments


def _named_data(
    named: NamedDataStoreOutput, alignments: Mapping[int, int], within: Mapping[int, int], segments: _Segments
) -> tuple[schema.NamedData, ...]:
    """A segment per buffer; those in `within` lie that many bytes into the constants."""
    index = {}
    for buffer, alignment in alignments.items():
        data = tensor_bytes(named.buffers[buffer])
        if buffer in within:
            index[buffer] = segments.add_within(within[buffer], data)
        else:
            index[buffer] = segments.add(len(data), [(0, data)], alignment)
    return tuple(schema.NamedData(key, index[entry.buffer_index]) for key, entry in named.pte_data.items())


def _with_blobs(
    plan: schema.ExecutionPlan, places: Sequence[schema.BackendDelegateDataReference]
) -> schema.ExecutionPlan:
    delegates = tuple(dataclasses.replace(d, processed=places[d.processed.index]) for d in plan.delegates)
    return dataclasses.replace(plan, delegates=delegates)
