"""The blob: Python writes what Python and C++ read, and bad bytes are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.backends import reference
from rules_executorch.backends.reference.blob import (
    VERSION,
    Blob,
    Constant,
    Instruction,
    Opcode,
    Place,
    Type,
    Value,
    ValueRef,
    deserialize,
    serialize,
)

U16, U32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
U64, I64 = st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)


def tuples(of, max_size=4):  # type: ignore[no-untyped-def]
    return st.lists(of, max_size=max_size).map(tuple)


BLOBS = st.builds(
    Blob,
    U32, U32, U64,
    tuples(st.builds(Constant, st.text(max_size=9), U64)),
    tuples(st.builds(Value, st.sampled_from(Place), st.sampled_from(Type), tuples(I64), U32, U64)),
    tuples(
        st.builds(
            Instruction, st.sampled_from(Opcode), U32, tuples(U32),
            tuples(st.one_of(I64, st.builds(ValueRef, I64))), tuples(st.floats(allow_nan=False)),
        )
    ),
    tuples(st.tuples(U32, U32)),
)  # fmt: skip


@given(BLOBS)
def test_a_blob_comes_back_from_its_bytes(blob: Blob) -> None:
    assert deserialize(serialize(blob)) == blob


@given(BLOBS, st.data())
def test_truncated_and_changed_bytes_are_a_blob_or_an_error(blob: Blob, data: st.DataObject) -> None:
    good = serialize(blob)
    cut = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(ValueError):
        deserialize(good[:cut])
    changed = bytearray(good)
    changed[cut] ^= data.draw(st.integers(1, 255))
    try:
        deserialize(bytes(changed))
    except ValueError:
        pass


def test_the_device_runtime_has_the_same_numbers() -> None:
    header = (Path(reference.__file__).parent / "runtime" / "blob.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"\bk(\w+) = (\d+)", header)}

    def camel(name: str) -> str:
        return "".join(part.capitalize() for part in name.split("_"))

    for enum in (Opcode, Place, Type):
        assert {camel(member.name): member.value for member in enum}.items() <= numbers.items()
    source = (Path(reference.__file__).parent / "runtime" / "blob.cc").read_text()
    assert f"kVersion = {VERSION};" in source
