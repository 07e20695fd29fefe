"""Where the data of a program lie: its segments, and the tables that point into them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ..delegation.named_data import tensor_bytes
from ..format import schema
from ..format.container import Data, Segment, align
from ..format.program import ProgramFile
from ..format.schema import BlobLocation
from .config import EmitConfig
from .pools import ConstantPool, Pools, StatePool, is_zero

_STATE_ALIGNMENT = 16


def lay_out(plans: Sequence[schema.ExecutionPlan], pools: Pools, config: EmitConfig) -> ProgramFile:
    """The program file of `plans`. Segments: constants, initial state, delegates' blobs, named data."""
    segments = _Segments(config.segment_alignment)
    constants = _constants(pools.constants, segments, config.constant_tensor_alignment)
    state = _state(pools.state, segments)
    blobs, inline = _blobs(pools.blobs.blobs, segments, config)
    named_data = _named_data(pools, segments)
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
    """Segments one behind the other."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self.segments: list[Segment] = []

    def add(self, size: int, parts: Sequence[tuple[int, Data]], alignment: int = 1) -> int:
        """The index of a new segment."""
        last = self.segments[-1] if self.segments else Segment(0, 0, ())
        offset = align(last.offset + last.size, math.lcm(self._alignment, alignment))
        self.segments.append(Segment(offset, size, tuple(parts)))
        return len(self.segments) - 1


def _constants(pool: ConstantPool, segments: _Segments, alignment: int) -> schema.SubsegmentOffsets:
    starts, end = [], 0
    for data in pool.data:
        starts.append(end)
        end = align(end + len(data), alignment)
    # The table must be there even if there are no constants; its first entry stands for none. And constants,
    # also those without elements, must be in a segment, which the format does not allow to be empty.
    index = segments.add(max(end, 1), list(zip(starts, pool.data)), alignment) if pool.data else 0
    return schema.SubsegmentOffsets(index, (0, *(starts[data] + offset for data, offset in pool.places)))


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


def _named_data(pools: Pools, segments: _Segments) -> tuple[schema.NamedData, ...]:
    """A segment per buffer, aligned as all of its keys ask."""
    output = pools.named_data.output()
    alignments: dict[int, int] = {}
    for entry in output.pte_data.values():
        alignments[entry.buffer_index] = math.lcm(alignments.get(entry.buffer_index, 1), entry.alignment)
    index = {}
    for buffer, alignment in alignments.items():
        data = tensor_bytes(output.buffers[buffer])
        index[buffer] = segments.add(len(data), [(0, data)], alignment)
    return tuple(schema.NamedData(key, index[entry.buffer_index]) for key, entry in output.pte_data.items())


def _with_blobs(
    plan: schema.ExecutionPlan, places: Sequence[schema.BackendDelegateDataReference]
) -> schema.ExecutionPlan:
    delegates = tuple(dataclasses.replace(d, processed=places[d.processed.index]) for d in plan.delegates)
    return dataclasses.replace(plan, delegates=delegates)
