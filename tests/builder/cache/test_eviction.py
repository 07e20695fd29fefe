"""The cache stays below its limit: what was used last stays, and so does all that a running build uses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.build_command import IMPORTS, build, counts, parent_of_sleep, start, write_files
from support.stores import put_bytes

from rules_executorch.builder.cache.disk import DiskActionCache, DiskStore
from rules_executorch.builder.cache.eviction import (
    SIZE_VARIABLE,
    evict,
    evict_if_needed,
    in_use,
    size_limit,
)
from rules_executorch.builder.core.store import ActionResult, OutputFile

_LONG_AGO = 1_000_000_000


def _key(number: int) -> str:
    return f"{number:064x}"


class Cache:
    """A cache with a result for each number, whose contents have 1,000 bytes."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch | None = None):
        self.root = root
        self.store = DiskStore(root)
        self.results = DiskActionCache(root, self.store)

    def add(self, number: int, used: float, *, content: int | None = None) -> None:
        data = f"{number if content is None else content:04d}".encode() * 250
        self.results.put(_key(number), ActionResult({"w/x": OutputFile(put_bytes(self.store, data))}))
        os.utime(self.results.path_of(_key(number)), (used, used))

    def have(self, count: int) -> set[int]:
        return {number for number in range(count) if self.results.get(_key(number)) is not None}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    # Contents that were just written stay; these tests pretend that two hours have passed.
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 7200 * 10**9)
    return Cache(tmp_path)


def test_what_was_used_last_stays(cache: Cache) -> None:
    for number in range(10):
        cache.add(number, _LONG_AGO + number)
    freed, left = evict(cache.root, 8000)
    assert freed > 0 and left <= 8000 * 0.8
    assert cache.have(10) == {6, 7, 8, 9} or cache.have(10) == {5, 6, 7, 8, 9}
    assert len(list((cache.root / "cas").glob("*/*"))) == len(cache.have(10))


def test_below_the_limit_everything_stays(cache: Cache) -> None:
    for number in range(10):
        cache.add(number, _LONG_AGO)
    assert evict(cache.root, 1 << 20)[0] == 0
    assert cache.have(10) == set(range(10))


def test_what_actions_keep_goes_by_its_last_use_as_results_do(cache: Cache) -> None:
    folder = cache.root / "kept/LowerModel-0"
    folder.mkdir(parents=True)
    for number in range(10):
        cache.add(number, _LONG_AGO + 2 * number)
        (folder / str(number)).write_bytes(bytes(1000))
        os.utime(folder / str(number), (_LONG_AGO + 2 * number + 1,) * 2)
    _, left = evict(cache.root, 10_000)
    kept, results = {int(path.name) for path in folder.iterdir()}, cache.have(10)
    assert left <= 8_000 and kept == set(range(min(kept), 10)) and results == set(range(min(results), 10))
    assert 0 <= min(results) - min(kept) <= 1


def test_using_a_result_makes_it_stay(cache: Cache) -> None:
    for number in range(10):
        cache.add(number, _LONG_AGO + number)
    assert cache.results.get(_key(0))
    evict(cache.root, 8000)
    assert 0 in cache.have(10)


def test_contents_stay_as_long_as_one_result_names_them(cache: Cache) -> None:
    for number in range(10):
        cache.add(number, _LONG_AGO + number, content=min(number, 1))
    evict(cache.root, 4000)
    assert cache.have(10) >= {8, 9}


_PROGRAM = """
from pathlib import Path
from rules_executorch.builder.cache.eviction import in_use
with in_use(Path(sys.argv[1])):
    print("in use", flush=True)
    sys.stdin.read()
"""


def test_nothing_goes_that_was_used_since_a_running_build_began(cache: Cache) -> None:
    with in_use(cache.root):
        for number in range(10):
            cache.add(number, time.time())
        evict(cache.root, 1)
        assert cache.have(10) == set(range(10))


def test_a_build_that_was_killed_protects_nothing(cache: Cache) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{IMPORTS}{_PROGRAM}", str(cache.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == b"in use\n"
    for number in range(10):
        cache.add(number, time.time())
    evict(cache.root, 1)
    assert len(list((cache.root / "ac").glob("*/*"))) == 10
    process.kill()
    process.communicate()
    for number in range(10):
        os.utime(cache.results.path_of(_key(number)), (_LONG_AGO, _LONG_AGO))
    evict(cache.root, 1)
    assert cache.have(10) == set()
    assert not list((cache.root / "running").iterdir())


def test_what_a_running_build_has_made_outlives_a_build_whose_limit_is_reached(tmp_path: Path) -> None:
    text = 'genrule(name = "{0}", outs = ["{0}.txt"], cmd = "echo {0} > $@")\n'
    slow = 'genrule(name = "slow", srcs = [":a"], outs = ["slow.txt"], cmd = "sleep 1000.771; cp $< $@")\n'
    ours = write_files(tmp_path / "ours", {"BUILD": text.format("a") + slow})
    other = write_files(tmp_path / "other", {"BUILD": text.format("old") + text.format("b")})
    cache = tmp_path / "cache"
    build(other, "//:old", cache=cache)
    (old,) = (cache / "ac").glob("*/*")
    os.utime(old, (_LONG_AGO, _LONG_AGO))
    process = start(ours, "//:slow", cache=cache)
    try:
        parent_of_sleep("1000.771", process)
        (made,) = set((cache / "ac").glob("*/*")) - {old}
        build(other, "//:b", cache=cache, **{SIZE_VARIABLE: "1"})
        assert made.exists() and not old.exists()
        store = DiskStore(cache)
        result = DiskActionCache(cache, store).get(made.name)
        assert result and store.read(result.outputs["w/a.txt"].digest) == b"a\n"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_the_whole_cache_is_looked_at_only_once_in_a_while(cache: Cache) -> None:
    for number in range(10):
        cache.add(number, _LONG_AGO)
    assert evict_if_needed(cache.root, 100_000, 0) == 0
    for number in range(10, 14):
        cache.add(number, _LONG_AGO)
    assert evict_if_needed(cache.root, 14_000, 0) == 0
    assert evict_if_needed(cache.root, 14_000, 4_000) > 0


def test_what_killed_builds_were_writing_goes(cache: Cache) -> None:
    (cache.root / "tmp/.writing-x").write_text("half")
    evict(cache.root, 1 << 20)
    assert not list((cache.root / "tmp").iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    uses=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 50), st.integers(0, 5)), max_size=25),
    limit=st.integers(0, 15_000),
)
def test_the_limit_holds_and_results_are_whole(cache: Cache, uses: list[tuple[int, int, int]], limit: int) -> None:
    for number, used, content in uses:
        cache.add(number, _LONG_AGO + used, content=content)
    _, left = evict(cache.root, limit)
    assert left <= limit
    on_disk = sum(p.stat().st_size for kind in ("ac", "cas") for p in (cache.root / kind).glob("*/*"))
    assert on_disk == left
    for path in (cache.root / "ac").glob("*/*"):
        assert cache.results.get(path.name) is not None


@pytest.mark.parametrize(("text", "size"), [("20G", 20 << 30), ("512MiB", 512 << 20), ("7", 7), ("", 50 << 30)])
def test_the_limit_is_a_variable(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv(SIZE_VARIABLE, text)
    assert size_limit() == size


def test_a_limit_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    root = write_files(tmp_path / "ws", {"BUILD": 'genrule(name = "a", outs = ["a.txt"], cmd = "echo > $@")\n'})
    result = build(root, "//:a", **{SIZE_VARIABLE: "much"})
    assert result.returncode != 0 and "must be a size such as 20G, not 'much'" in result.stderr
    assert "Traceback" not in result.stderr


def test_builds_go_on_with_a_cache_that_is_always_too_small(tmp_path: Path) -> None:
    text = "".join(
        f'genrule(name = "a{n}", srcs = ["in.txt"], outs = ["a{n}.txt"], cmd = "cat $< > $@; seq {n} 3000 >> $@")\n'
        for n in range(6)
    )
    root = write_files(tmp_path / "ws", {"BUILD": text, "in.txt": "1\n"})
    for content in ("1\n", "2\n", "1\n"):
        (root / "in.txt").write_text(content)
        result = build(root, "//...", **{SIZE_VARIABLE: "1K"})
        assert counts(result)[0] + counts(result)[1] == 6, result.stderr
        assert (root / "build-out/a0.txt").read_text().startswith(content)
