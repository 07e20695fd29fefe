"""Whatever happens to a build or to the store, the next build makes what a clean one makes, with nothing manual."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.build_command import BUILD, environment, start, warm_build
from support.generated_workspace import GeneratedWorkspace

HowMany = Callable[[int, int], int]


@pytest.fixture
def workspace(tmp_path: Path) -> GeneratedWorkspace:
    return GeneratedWorkspace(tmp_path / "ws", 7)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _must_be_right(workspace: GeneratedWorkspace, cache: Path, what: object) -> None:
    result = warm_build(workspace.root, "//...", cache=cache)
    assert result.returncode == 0, (what, result.stdout, result.stderr)
    assert workspace.found() == workspace.expected(), what


def test_builds_killed_at_random_moments(workspace: GeneratedWorkspace, cache: Path, how_many: HowMany) -> None:
    process = start(workspace.root, "//...", cache=cache)
    started = time.monotonic()
    process.communicate()
    duration = time.monotonic() - started
    _must_be_right(workspace, cache, "at first")
    for number in range(how_many(6, 500)):
        workspace.word = f"word{number}"  # all targets are to be built
        workspace.write()
        moment = workspace.random.uniform(0, duration)
        process = start(workspace.root, "//...", cache=cache)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            # Sometimes all that belongs to it dies, as when a machine goes down; sometimes only the build.
            (os.killpg if number % 2 else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        _must_be_right(workspace, cache, f"killed after {moment:.3f} s (no. {number})")


def _flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"x")
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.chmod(0o644)
    path.write_bytes(data)


def _cut(path: Path, chance: random.Random) -> None:
    path.chmod(0o644)
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def _fill(path: Path, chance: random.Random) -> None:
    path.chmod(0o644)
    path.write_bytes(chance.randbytes(chance.randrange(100)))


def _remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def test_random_corruptions_of_the_store_and_the_state(
    workspace: GeneratedWorkspace, cache: Path, how_many: HowMany
) -> None:
    chance = workspace.random
    _must_be_right(workspace, cache, "at first")
    at_once = 10
    for number in range(how_many(40, 1000) // at_once):
        places = [cache, workspace.root / "build-out"]
        files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
        done = []
        for path in chance.sample(files, min(at_once, len(files))):
            damage = chance.choice([_flip, _flip, _cut, _fill, _remove])
            damage(path, chance)
            done.append(f"{damage.__name__} {path}")
        if chance.random() < 0.7:  # so that the store is read
            shutil.rmtree(workspace.root / "build-out")
        if chance.random() < 0.3:
            done.append(workspace.edit())
        _must_be_right(workspace, cache, (number, done))


def test_pairs_of_concurrent_builds(workspace: GeneratedWorkspace, cache: Path, tmp_path: Path, how_many: HowMany) -> None:
    for number in range(how_many(4, 200)):
        workspace.word = f"word{number}"
        workspace.write()
        roots = [workspace.root, workspace.root]
        if number % 2:  # two workspaces, one store
            other = tmp_path / "other"
            shutil.rmtree(other, ignore_errors=True)
            shutil.copytree(workspace.root, other, ignore=shutil.ignore_patterns("build-out"))
            roots = [workspace.root, other]
        builds = [start(root, "//...", cache=cache) for root in roots]
        for process in builds:
            printed = process.communicate(timeout=300)
            assert process.returncode == 0, (number, printed)
        for root in roots:
            for path, text in workspace.expected().items():
                assert (root / "build-out" / path).read_text() == text, (number, root, path)


_SMALL_DISK = """
set -e
mount -t tmpfs -o size=$1 none "$2"
shift 2
exec "$@"
"""


def _in_namespaces(script: str, *arguments: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *arguments]


def _can_mount(tmp_path: Path) -> bool:
    try:
        command = _in_namespaces(_SMALL_DISK, "64k", str(tmp_path), "true")
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


_FILL_AND_BUILD = """
import os, subprocess, sys
cache, root, *command = sys.argv[1:]
def run():
    return subprocess.run(command, cwd=root, capture_output=True, text=True)
def fill():
    with open(f"{cache}/filler", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
fill()
full = run()
print(full.returncode, full.stdout, full.stderr)
assert full.returncode != 0 and "No space left on device" in full.stderr, "a full disk"
assert "Traceback" not in full.stderr
for keep in range(5):  # a disk with room for a part
    os.truncate(f"{cache}/filler", os.path.getsize(f"{cache}/filler") - (16 << 10))
    some = run()
    assert "Traceback" not in some.stderr, some.stderr
os.unlink(f"{cache}/filler")
again = run()
print(again.stdout, again.stderr)
sys.exit(again.returncode)
"""


def test_a_full_disk(workspace: GeneratedWorkspace, cache: Path) -> None:
    cache.mkdir()
    if not _can_mount(cache):
        pytest.skip("no tmpfs can be mounted here")
    command = [sys.executable, "-c", _FILL_AND_BUILD, str(cache), str(workspace.root), *BUILD, "//..."]
    result = subprocess.run(
        _in_namespaces(_SMALL_DISK, "4m", str(cache), *command),
        env=environment(cache),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert workspace.found() == workspace.expected()


_READ_ONLY = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
shift
exec "$@"
"""


@pytest.mark.parametrize("which", ["cache", "workspace"])
def test_folders_that_are_read_only(workspace: GeneratedWorkspace, cache: Path, which: str) -> None:
    if not _can_mount(cache.parent / "probe") and not (cache.parent / "probe").mkdir() and not _can_mount(
        cache.parent / "probe"
    ):
        pytest.skip("nothing can be mounted here")
    _must_be_right(workspace, cache, "at first")
    workspace.word = "other"
    workspace.write()
    folder = {"cache": cache, "workspace": workspace.root}[which]
    result = subprocess.run(
        _in_namespaces(_READ_ONLY, str(folder), *BUILD, "//..."),
        cwd=workspace.root,
        env=environment(cache),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode != 0
    assert "Read-only file system" in result.stderr and "Traceback" not in result.stderr, result.stderr
    _must_be_right(workspace, cache, "afterwards")
