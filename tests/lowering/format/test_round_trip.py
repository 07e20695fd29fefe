"""write → read → write gives the same bytes; what is written is what is read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules_executorch.lowering.errors import InvalidFileError
from rules_executorch.lowering.format import schema
from rules_executorch.lowering.format.container import Segment, align
from rules_executorch.lowering.format.program import ProgramFile
from rules_executorch.lowering.format.ptd import TensorData, TensorEntry, TensorLayout, ptd_bytes, read_ptd
from rules_executorch.lowering.format.read import read_pte
from rules_executorch.lowering.format.write import pte_bytes, write_pte

TEXT = st.text(max_size=12)
FLOATS = st.floats(allow_nan=False)
INTS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def tensors(draw: st.DrawFn) -> schema.Tensor:
    rank = draw(st.integers(0, 5))
    return schema.Tensor(
        scalar_type=draw(st.sampled_from([0, 4, 6, 11])),
        sizes=tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank))),
        dim_order=tuple(draw(st.permutations(range(rank)))),
        requires_grad=draw(st.booleans()),
        shape_dynamism=draw(st.integers(0, 1)),
        allocation_info=draw(st.none() | st.just(schema.allocation(1, 64))),
        extra_tensor_info=draw(st.none() | st.builds(schema.ExtraTensorInfo, fully_qualified_name=st.none() | TEXT)),
    )


@st.composite
def values(draw: st.DrawFn) -> tuple[schema.Value, ...]:
    """A table of values; lists refer to what comes before them."""
    plain = st.one_of(
        st.just(schema.Null()),
        st.builds(schema.Int, INTS),
        st.builds(schema.Bool, st.booleans()),
        st.builds(schema.Double, FLOATS),
        st.builds(schema.Text, TEXT),
        st.builds(schema.DoubleList, st.lists(FLOATS, max_size=4).map(tuple)),
        st.builds(schema.BoolList, st.lists(st.booleans(), max_size=4).map(tuple)),
        tensors(),
    )
    table: list[schema.Value] = draw(st.lists(plain, max_size=12))
    tensor_places = [i for i, v in enumerate(table) if isinstance(v, schema.Tensor)]
    int_places = [i for i, v in enumerate(table) if isinstance(v, schema.Int)]
    if tensor_places:
        items = draw(st.lists(st.sampled_from(tensor_places), max_size=4).map(tuple))
        table += [schema.TensorList(items), schema.OptionalTensorList((-1, *items))]
    if int_places:
        table.append(schema.IntList(draw(st.lists(st.sampled_from(int_places), max_size=4).map(tuple))))
    return tuple(table)


@st.composite
def plans(draw: st.DrawFn, name: str, segments: int) -> schema.ExecutionPlan:
    table = draw(values())
    places = st.lists(st.integers(0, len(table) - 1), max_size=5).map(tuple) if table else st.just(())
    operators = tuple(draw(st.lists(st.builds(schema.Operator, TEXT, TEXT), max_size=3)))
    delegates = tuple(
        schema.BackendDelegate(
            draw(TEXT),
            schema.BackendDelegateDataReference(schema.BlobLocation.SEGMENT, draw(st.integers(0, segments - 1))),
            tuple(draw(st.lists(st.builds(schema.CompileSpec, TEXT, st.binary(max_size=5)), max_size=2))),
        )
        for _ in range(draw(st.integers(0, 2)) if segments else 0)
    )
    calls = [st.just(schema.JumpFalseCall(0, 0))] if table else []
    if operators:
        calls.append(st.builds(schema.KernelCall, st.integers(0, len(operators) - 1), places))
    if delegates:
        calls.append(st.builds(schema.DelegateCall, st.integers(0, len(delegates) - 1), places))
    instructions = tuple(draw(st.lists(st.one_of(calls), max_size=6))) if calls else ()
    return schema.ExecutionPlan(
        name=name,
        container_meta_type=draw(st.none() | st.builds(schema.ContainerMetadata, TEXT, TEXT)),
        values=table,
        inputs=draw(places),
        outputs=draw(places),
        chains=(schema.Chain(instructions=instructions),),
        operators=operators,
        delegates=delegates,
        non_const_buffer_sizes=(0, 1 << 20),
    )


@st.composite
def program_files(draw: st.DrawFn) -> ProgramFile:
    segments: list[Segment] = []
    end = 0
    for data in draw(st.lists(st.binary(max_size=300), max_size=4)):
        start = align(end, draw(st.sampled_from([1, 16, 128])))
        segments.append(Segment(start, len(data), ((0, data),)))
        end = start + len(data)
        if draw(st.booleans()):  # the same bytes once more, under another index
            inner = draw(st.integers(0, len(data)))
            segments.append(Segment(start + inner, len(data) - inner, ((0, data[inner:]),)))
    names = draw(st.lists(TEXT, max_size=3, unique=True))
    keys = draw(st.lists(TEXT, max_size=3, unique=True)) if segments else []
    program = schema.Program(
        execution_plan=tuple(draw(plans(name, len(segments))) for name in names),
        segments=tuple(schema.DataSegment(s.offset, s.size) for s in segments) or None,
        constant_segment=schema.SubsegmentOffsets(0, (0,)),
        named_data=tuple(schema.NamedData(k, draw(st.integers(0, len(segments) - 1))) for k in keys) or None,
    )
    return ProgramFile(program, tuple(segments))


@settings(deadline=None)
@given(program_files())
def test_what_is_written_is_read_and_written_again_the_same(program: ProgramFile) -> None:
    written = pte_bytes(program)
    assert read_pte(written) == program
    assert pte_bytes(read_pte(written)) == written


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=4),
    st.dictionaries(TEXT, st.integers(0, 100), max_size=4),
    st.sampled_from([1, 16, 256]),
)
def test_tensor_data_files_round_trip(buffers: list[bytes], keys: dict[str, int], alignment: int) -> None:
    entries = {}
    for key, number in keys.items():
        index = number % len(buffers)
        layout = TensorLayout(0, (len(buffers[index]),), (0,)) if number % 2 else None
        entries[key] = TensorEntry(index, layout)
    data = TensorData(tuple(buffers), entries, (alignment,) * len(buffers))
    written = ptd_bytes(data)
    read = read_ptd(written)
    assert (read.buffers, read.entries) == (data.buffers, data.entries)


def _sample() -> ProgramFile:
    plan = schema.ExecutionPlan(name="f", chains=(schema.Chain(),), non_const_buffer_sizes=(0,))
    data = Segment(0, 5, ((0, b"ab"), (3, b"cd")))
    return ProgramFile(
        schema.Program(
            execution_plan=(plan,),
            segments=(schema.DataSegment(0, 5),),
            constant_segment=schema.SubsegmentOffsets(0, (0, 3)),
        ),
        (data,),
    )


def test_parts_of_a_segment_lie_at_their_offsets_with_zeros_between() -> None:
    read = read_pte(pte_bytes(_sample()))
    assert bytes(read.segments[0].parts[0][1]) == b"ab\0cd"
    assert bytes(read.constant(1)) == b"cd"


def test_a_path_and_a_stream_get_the_same_bytes(tmp_path: Path) -> None:
    stream = io.BytesIO()
    write_pte(_sample(), stream)
    write_pte(_sample(), tmp_path / "a.pte")
    assert (tmp_path / "a.pte").read_bytes() == stream.getvalue() == pte_bytes(_sample())
    assert read_pte(tmp_path / "a.pte") == read_pte(stream.getvalue())


def test_a_segment_lies_within_another_or_beside_it() -> None:
    def written(*places: tuple[int, int]) -> bytes:
        data = tuple(schema.DataSegment(offset, size) for offset, size in places)
        program = schema.Program(segments=data, constant_segment=schema.SubsegmentOffsets(0, (0,)))
        return pte_bytes(ProgramFile(program, tuple(Segment(offset, size, ()) for offset, size in places)))

    assert len(read_pte(written((0, 64), (16, 48))).segments) == 2
    with pytest.raises(InvalidFileError, match="segment 1 overlaps"):
        read_pte(written((0, 64), (16, 49)))


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "a.pte"
    target.write_bytes(b"old")
    sample = _sample()
    broken = ProgramFile(sample.program, (Segment(0, 5, ((0, b"abc"), (1, b"overlapping"))),))
    with pytest.raises(ValueError, match="overlap"):
        write_pte(broken, target)
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]
