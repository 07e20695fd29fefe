"""Remembered digests: never stale, and not computed twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rules_executorch.builder.cache import file_digests
from rules_executorch.builder.cache.file_digests import FileDigests
from rules_executorch.builder.core.digest import digest_bytes
from rules_executorch.builder.core.settled import settled


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were hashed, in order."""
    paths: list[str] = []
    real = file_digests.digest_file

    def spy(path: str):
        paths.append(path)
        return real(path)

    monkeypatch.setattr(file_digests, "digest_file", spy)
    return paths


def _wait_until_settled(path: Path) -> None:
    while not settled(os.stat(path).st_mtime_ns, os.stat(path).st_ctime_ns, time.time_ns()):
        pass


def test_a_file_is_hashed_once_also_by_the_next_build(tmp_path: Path, hashed: list[str]) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one")
    _wait_until_settled(file)
    for _ in range(2):
        digests = FileDigests(tmp_path / "digests.sqlite")
        assert digests.file(file).digest == digest_bytes(b"one")
        assert digests.file(file).digest == digest_bytes(b"one")
        digests.close()
    assert len(hashed) == 1


def test_a_change_of_the_same_size_within_the_clock_tick_is_seen(tmp_path: Path) -> None:
    digests = FileDigests(tmp_path / "digests.sqlite")
    file = tmp_path / "f"
    for number in range(300):
        data = b"%03d" % number
        with open(file, "r+b" if number else "wb") as handle:
            handle.write(data)
        assert digests.file(file).digest == digest_bytes(data)


def test_a_file_put_in_anothers_place_with_its_times_is_seen(tmp_path: Path) -> None:
    digests = FileDigests(tmp_path / "digests.sqlite")
    file, other = tmp_path / "f", tmp_path / "g"
    file.write_bytes(b"one")
    other.write_bytes(b"two")
    _wait_until_settled(other)
    digests.file(file)
    times = os.stat(file)
    os.replace(other, file)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests.file(file).digest == digest_bytes(b"two")


def test_being_executable_is_read_each_time(tmp_path: Path) -> None:
    digests = FileDigests(tmp_path / "digests.sqlite")
    file = tmp_path / "f"
    file.write_bytes(b"one")
    assert not digests.file(file).executable
    file.chmod(0o755)
    assert digests.file(file).executable


@pytest.mark.parametrize("junk", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 2000])
def test_a_damaged_database_is_begun_anew(tmp_path: Path, junk: bytes, hashed: list[str]) -> None:
    database = tmp_path / "digests.sqlite"
    database.write_bytes(junk)
    (tmp_path / "f").write_bytes(b"one")
    _wait_until_settled(tmp_path / "f")
    for _ in range(2):
        digests = FileDigests(database)
        assert digests.file(tmp_path / "f").digest == digest_bytes(b"one")
        digests.close()
    assert len(hashed) == 1


def test_a_database_that_cannot_be_written_does_not_stop_a_build(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    (tmp_path / "f").write_bytes(b"one")
    digests = FileDigests(tmp_path / "blocked" / "digests.sqlite")
    assert digests.file(tmp_path / "f").digest == digest_bytes(b"one")
    digests.close()


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        FileDigests(tmp_path / "digests.sqlite").file(tmp_path)
