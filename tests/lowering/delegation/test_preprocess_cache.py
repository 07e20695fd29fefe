"""Results of backends are found again by the content of partitions, and never taken for others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rules_executorch.lowering.delegation.backend import (
    BackendDetails,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    register_backend,
)
from rules_executorch.lowering.delegation.lowered_module import lowered_modules
from rules_executorch.lowering.delegation.named_data import DataEntry, NamedDataStore, NamedDataStoreOutput
from rules_executorch.lowering.delegation.partitioning import graph_modules, tag_constant_data
from rules_executorch.lowering.delegation.preprocess_results import result_from_bytes, result_to_bytes
from rules_executorch.lowering.delegation.to_backend import to_backend
from rules_executorch.lowering.errors import LoweringError
from rules_executorch.lowering.result_cache import FolderCache, Tally, caching
from support.delegation import export

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Layered(BackendDetails):
    """Writes down the operators of a partition and keeps its weights in named data."""

    @staticmethod
    def preprocess(edge_program, compile_specs):  # type: ignore[no-untyped-def]
        store = NamedDataStore()
        for tensor in edge_program.state_dict.values():
            store.add_by_content(tensor.detach())
        store.add_by_content(b"of its own")
        nodes = list(edge_program.graph.nodes)
        if any("erf" in str(node.target) for node in nodes):
            raise LoweringError("no erf here", node=next(n for n in nodes if "erf" in str(n.target)))
        text = ";".join(f"{node.name} {node.target} {node.meta.get('debug_handle')}" for node in nodes)
        handles = {i: (n.meta["debug_handle"],) for i, n in enumerate(nodes) if "debug_handle" in n.meta}
        return PreprocessResult(text.encode(), handles, store.output(), {"nodes": len(nodes)})


register_backend("Layered", Layered)


class Layers(torch.nn.Module):
    """Linear layers with an activation each; between two layers stands what no backend takes."""

    def __init__(self, *activations: str, begins_with_cos: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.begins_with_cos = begins_with_cos
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in activations)
        self.activations = activations

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = torch.cos(x) if self.begins_with_cos else x
        for layer, activation in zip(self.layers, self.activations):
            x = torch.cos(getattr(torch, activation)(layer(x)))
        return x


class LayerByLayer(Partitioner):
    """Takes all but cosines, which stand between layers."""

    def __init__(self, spec: DelegationSpec):
        self.spec = spec

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        layer, tags = 0, {}
        for node in exported_program.graph.nodes:
            if "cos" in str(node.target):
                layer += 1
            elif node.op == "call_function":
                node.meta["delegation_tag"] = f"layer{layer}"
                tags[f"layer{layer}"] = self.spec
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


def _lower(model: torch.nn.Module, tally_of: FolderCache | None, specs: tuple[CompileSpec, ...] = ()):  # type: ignore[no-untyped-def]
    program = export(model, X)
    for index, node in enumerate(program.graph.nodes):
        if node.op == "call_function":
            node.meta["debug_handle"] = index
    partitioner = LayerByLayer(DelegationSpec("Layered", specs))
    if tally_of is None:
        return to_backend(program, partitioner), None
    with caching(tally_of) as tally:
        return to_backend(program, partitioner), tally


def _results(program) -> list[tuple]:  # type: ignore[no-untyped-def]
    """All that a program has of its delegates."""
    found = []
    for module in lowered_modules(program.graph_module):
        data = module.named_data_store_output
        buffers = [bytes(b) if isinstance(b, bytes) else b.numpy().tobytes() for b in data.buffers]
        handles = dict(module.debug_handle_map)
        found.append((module.processed_bytes, handles, buffers, data.pte_data, module.delegate_info_meta))
    return found


@pytest.fixture
def cache(tmp_path: Path) -> FolderCache:
    return FolderCache(tmp_path / "known", tmp_path / "new")


def _counts(tally: Tally | None) -> tuple[int, int]:
    assert tally
    return tally.preprocessed, tally.cached


def test_the_second_time_no_backend_is_asked(cache: FolderCache) -> None:
    first, tally = _lower(Layers("sin", "tanh", "sin"), cache)
    assert _counts(tally) == (3, 0)
    second, tally = _lower(Layers("sin", "tanh", "sin"), cache)
    assert _counts(tally) == (0, 3)
    plain, _ = _lower(Layers("sin", "tanh", "sin"), None)
    assert _results(first) == _results(second) == _results(plain)


def test_what_was_known_and_is_used_is_noted(cache: FolderCache) -> None:
    _lower(Layers("sin", "tanh"), cache)
    later = FolderCache(cache.new, cache.known)
    for _ in range(2):
        assert _counts(_lower(Layers("sin"), later)[1]) == (0, 1)
    (note,) = later.new.iterdir()
    assert note.read_bytes() == b"" and (cache.new / note.name).stat().st_size


def test_after_an_edit_of_one_layer_one_partition_is_compiled(cache: FolderCache) -> None:
    _lower(Layers("sin", "tanh", "sin", "sin"), cache)
    changed = Layers("sin", "sin", "sin", "sin")
    edited, tally = _lower(changed, cache)
    assert _counts(tally) == (1, 3)
    assert _results(edited) == _results(_lower(changed, None)[0])


def test_debug_handles_are_those_of_the_program_at_hand(cache: FolderCache) -> None:
    _lower(Layers("sin", "sin"), cache)
    longer = Layers("sin", "sin", begins_with_cos=True)
    moved, tally = _lower(longer, cache)
    assert _counts(tally) == (0, 2)
    assert _results(moved) == _results(_lower(longer, None)[0])
    handles = [set(module.debug_handle_map.values()) for module in lowered_modules(moved.graph_module)]
    assert not handles[0] & handles[1]


def test_other_weights_are_another_partition(cache: FolderCache) -> None:
    _lower(Layers("sin", "sin"), cache)
    retrained = Layers("sin", "sin")
    with torch.no_grad():
        retrained.layers[1].weight[0, 0] += 1
    assert _counts(_lower(retrained, cache)[1]) == (1, 1)


def test_other_compile_specs_are_other_partitions(cache: FolderCache) -> None:
    _lower(Layers("sin"), cache)
    assert _counts(_lower(Layers("sin"), cache, (CompileSpec("speed", b"11"),))[1]) == (1, 0)


def test_a_damaged_result_is_made_again(cache: FolderCache) -> None:
    first, _ = _lower(Layers("sin"), cache)
    (file,) = cache.new.iterdir()
    data = bytearray(file.read_bytes())
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 1
        file.write_bytes(damaged)
        again, tally = _lower(Layers("sin"), cache)
        assert _counts(tally) == (1, 0) and _results(again) == _results(first)
        if position > 50:
            break


def test_weights_are_not_kept_twice(cache: FolderCache) -> None:
    model = torch.nn.Linear(300, 300)
    program = export(model, torch.ones(1, 300))
    with caching(cache):
        to_backend(program, DelegationSpec("Layered"))
    (file,) = cache.new.iterdir()
    assert file.stat().st_size < 300 * 300


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where nobody may")
def test_a_folder_that_cannot_be_written_to_keeps_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    assert _counts(_lower(Layers("sin"), FolderCache(tmp_path / "a", tmp_path / "b"))[1]) == (1, 0)


def test_a_mistake_names_the_node_as_the_user_knows_it() -> None:
    class Erf(torch.nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return torch.erf(x + 1)

    with pytest.raises(LoweringError, match=r"node: erf = aten"):
        to_backend(export(Erf(), X), DelegationSpec("Layered"))


def test_what_a_partitioner_notes_on_a_node_is_part_of_it(cache: FolderCache) -> None:
    def lower(note: object) -> tuple[int, int]:
        program = export(Layers("sin"), X)
        for module in graph_modules(program.graph_module):
            for node in module.graph.nodes:
                node.meta["note"] = note
        with caching(cache) as tally:
            to_backend(program, DelegationSpec("Layered"))
        return _counts(tally)

    assert lower({"rank": 1}) == (1, 0)
    assert lower({"rank": 1}) == (0, 1)
    assert lower({"rank": 2}) == (1, 0)
    # No digest can tell of an object.
    assert lower(object()) == lower(object()) == (1, 0)


_BYTES = st.binary(max_size=20)
_ENTRIES = st.dictionaries(st.text(max_size=5), st.builds(DataEntry, st.just(0), st.integers(1, 64)), max_size=2)
_RESULTS = st.builds(
    PreprocessResult,
    _BYTES,
    st.dictionaries(st.integers(), st.tuples(st.integers()), max_size=3),
    st.none()
    | st.builds(
        NamedDataStoreOutput,
        st.tuples(_BYTES, _BYTES),
        _ENTRIES,
        st.dictionaries(st.text(max_size=3), _ENTRIES, max_size=2),
    ),
    st.none() | st.integers() | st.dictionaries(st.text(), st.lists(st.booleans()), max_size=2),
)


@given(_RESULTS)
def test_results_are_written_and_read_again(result: PreprocessResult) -> None:
    data = result_to_bytes(result, {})
    assert data is not None and result_from_bytes(data, {}) == result


def test_a_result_that_is_not_json_is_not_kept() -> None:
    assert result_to_bytes(PreprocessResult(_delegate_info_meta=object()), {}) is None
    assert result_to_bytes(PreprocessResult(_delegate_info_meta=(1,)), {}) is None
