"""Named data: equal bytes once, conflicting keys refused, no copies of tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.lowering.delegation.named_data import DataEntry, NamedDataStore, tensor_bytes


def test_equal_bytes_are_stored_once() -> None:
    store = NamedDataStore()
    store.add_named_data("a", b"1234", alignment=4)
    store.add_named_data("b", torch.tensor([0x31, 0x32, 0x33, 0x34], dtype=torch.uint8), external_tag="weights")
    output = store.output()
    assert output.buffers == (b"1234",)
    assert output.pte_data == {"a": DataEntry(0, 4)}
    assert output.external_data == {"weights": {"b": DataEntry(0, 1)}}


def test_a_key_given_again_keeps_the_stricter_alignment() -> None:
    store = NamedDataStore()
    for alignment in (4, 6, 1):
        store.add_named_data("a", b"1", alignment)
    assert store.output().pte_data == {"a": DataEntry(0, 12)}


def test_a_key_cannot_name_two_things() -> None:
    store = NamedDataStore()
    store.add_named_data("a", b"1")
    with pytest.raises(ValueError, match="'a' is given twice with different bytes"):
        store.add_named_data("a", b"2")
    with pytest.raises(ValueError, match="'a' is stored both in the program and in weights"):
        store.add_named_data("a", b"1", external_tag="weights")
    with pytest.raises(ValueError, match="alignment must be positive"):
        store.add_named_data("b", b"1", 0)


def test_tensors_are_not_copied() -> None:
    tensor = torch.arange(4.0)
    store = NamedDataStore()
    store.add_named_data("a", tensor)
    assert store.output().buffers[0] is tensor
    view = tensor_bytes(tensor)
    tensor[0] = 7
    assert view[:4] == torch.tensor([7.0]).numpy().tobytes()
    with pytest.raises(ValueError, match="contiguous CPU tensor"):
        store.add_named_data("b", torch.zeros(2, 3).T)


def test_a_key_made_of_the_contents() -> None:
    store = NamedDataStore()
    keys = [store.add_by_content(data) for data in (torch.ones(2), torch.ones(2).numpy().tobytes(), torch.zeros(2))]
    assert keys[0] == keys[1] != keys[2]
    assert len(store.output().buffers) == 2


ENTRIES = st.dictionaries(st.text(max_size=3), st.tuples(st.binary(max_size=2), st.integers(1, 8)), max_size=5)


@given(ENTRIES, ENTRIES)
def test_merging_is_adding_one_after_the_other(first: dict, second: dict) -> None:
    def filled(*parts: dict) -> NamedDataStore:
        store = NamedDataStore()
        for part in parts:
            for key, (data, alignment) in part.items():
                store.add_named_data(key, data, alignment)
        return store

    conflict = any(second.get(key, entry)[0] != entry[0] for key, entry in first.items())
    merged = filled(first)
    if conflict:
        with pytest.raises(ValueError, match="different bytes"):
            merged.merge_named_data_store(filled(second).output())
    else:
        merged.merge_named_data_store(filled(second).output())
        assert merged.output() == filled(first, second).output()
        assert len(set(merged.output().buffers)) == len(merged.output().buffers)
