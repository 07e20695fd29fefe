"""The store on disk: what is read is what was put, whatever happened to the files meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores import put_bytes

from rules_executorch.builder.cache.disk import DiskActionCache, DiskStore, result_from_json, result_to_json
from rules_executorch.builder.core.digest import Digest, digest_bytes
from rules_executorch.builder.core.store import ActionResult, OutputFile


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "cache")


def _corrupt(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


@given(st.binary(max_size=200), st.booleans())
def test_what_is_put_comes_back(tmp_path_factory: pytest.TempPathFactory, data: bytes, executable: bool) -> None:
    folder = tmp_path_factory.mktemp("store")
    store = DiskStore(folder / "cache")
    (folder / "in").write_bytes(data)
    digest = store.put(folder / "in")
    assert digest == digest_bytes(data) == put_bytes(store, data)
    assert store.materialize(digest, folder / "sub" / "out", executable)
    out = folder / "sub" / "out"
    assert out.read_bytes() == data == store.read(digest)
    assert stat.S_IMODE(out.stat().st_mode) == (0o555 if executable else 0o444)
    assert os.listdir(folder / "sub") == ["out"], "temporary files remain"


def test_a_plain_file_is_linked_and_an_executable_is_not(store: DiskStore, tmp_path: Path) -> None:
    digest = put_bytes(store, b"x")
    store.materialize(digest, tmp_path / "plain", False)
    store.materialize(digest, tmp_path / "program", True)
    assert (tmp_path / "plain").samefile(store.path_of(digest))
    assert not (tmp_path / "program").samefile(store.path_of(digest))


def test_materializing_twice_onto_one_path_leaves_nothing_beside(store: DiskStore, tmp_path: Path) -> None:
    digest = put_bytes(store, b"x")
    for _ in range(2):
        assert store.materialize(digest, tmp_path / "out" / "f", False)
    assert os.listdir(tmp_path / "out") == ["f"]


@pytest.mark.parametrize("damage", [b"", b"longer than before", b"hellp"])
def test_corrupt_bytes_are_evicted_and_never_handed_out(store: DiskStore, tmp_path: Path, damage: bytes) -> None:
    digest = put_bytes(store, b"hello")
    for executable in (False, True):
        _corrupt(store.path_of(digest), damage)
        assert not store.materialize(digest, tmp_path / "out", executable)
        assert not (tmp_path / "out").exists()
        assert not store.contains(digest)
        put_bytes(store, b"hello")
    _corrupt(store.path_of(digest), damage)
    assert store.read(digest) is None and not store.contains(digest)


def test_putting_again_repairs_a_corrupt_entry(store: DiskStore, tmp_path: Path) -> None:
    digest = put_bytes(store, b"hello")
    _corrupt(store.path_of(digest), b"jello")
    assert put_bytes(store, b"hello") == digest
    assert store.read(digest) == b"hello"


def test_what_is_absent_is_not_materialized(store: DiskStore, tmp_path: Path) -> None:
    assert not store.materialize(digest_bytes(b"never"), tmp_path / "out", False)
    assert store.read(digest_bytes(b"never")) is None


def test_a_store_on_another_file_system_copies(store: DiskStore, tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    digest = put_bytes(store, b"x")
    monkeypatch.setattr(os, "link", refuse)
    assert store.materialize(digest, tmp_path / "out", False)
    assert (tmp_path / "out").read_bytes() == b"x" and not (tmp_path / "out").samefile(store.path_of(digest))


_digests = st.binary(max_size=4).map(digest_bytes)
_results = st.builds(
    ActionResult,
    st.dictionaries(st.text("ab/é\n", max_size=5), st.builds(OutputFile, _digests, st.booleans()), max_size=3),
    st.none() | _digests,
    st.none() | _digests,
    st.booleans(),
)


@given(_results)
def test_results_survive_their_json(result: ActionResult) -> None:
    assert result_from_json(result_to_json(result)) == result


def _result(store: DiskStore) -> ActionResult:
    return ActionResult({"w/o": OutputFile(put_bytes(store, b"out"), True)}, stdout=put_bytes(store, b"said"))


def test_a_result_is_found_by_its_key(store: DiskStore, tmp_path: Path) -> None:
    cache = DiskActionCache(tmp_path / "cache", store)
    key = "ab" * 32
    assert cache.get(key) is None
    cache.put(key, _result(store))
    assert cache.get(key) == _result(store)


def test_a_result_with_a_missing_content_is_a_miss(store: DiskStore, tmp_path: Path) -> None:
    cache = DiskActionCache(tmp_path / "cache", store)
    cache.put("ab" * 32, _result(store))
    store.path_of(digest_bytes(b"said")).unlink()
    assert cache.get("ab" * 32) is None


@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=3))
def test_a_damaged_result_is_a_miss(tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("ac")
    store = DiskStore(folder)
    cache = DiskActionCache(folder, store)
    result = _result(store)
    cache.put("ab" * 32, result)
    path = cache.path_of("ab" * 32)
    data = path.read_bytes()
    at %= len(data)
    damaged = data[:at] + junk + data[at + len(junk) :]
    path.write_bytes(damaged)
    assert cache.get("ab" * 32) == (result if damaged == data else None)


def _put_for_ever(root: Path) -> None:
    store = DiskStore(root)
    cache = DiskActionCache(root, store)
    for number in range(1_000_000):
        data = bytes([number % 251]) * 200_000
        digest = put_bytes(store, data)
        cache.put(f"{number % 251:064x}", ActionResult({"w/o": OutputFile(digest)}))


def test_a_writer_killed_at_any_moment_leaves_only_whole_entries(tmp_path: Path) -> None:
    for round_ in range(8):
        writer = multiprocessing.get_context("fork").Process(target=_put_for_ever, args=(tmp_path,))
        writer.start()
        deadline = time.monotonic() + 20
        while not (tmp_path / "ac").exists() and time.monotonic() < deadline:
            pass
        writer.join(0.013 * round_)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        store = DiskStore(tmp_path)
        cache = DiskActionCache(tmp_path, store)
        for blob in (tmp_path / "cas").glob("*/*"):
            assert store.read(Digest(blob.name, 200_000)) is not None
        for entry in (tmp_path / "ac").glob("*/*"):
            result = cache.get(entry.name)
            assert result is not None
            assert store.materialize(result.outputs["w/o"].digest, tmp_path / "out", False)
