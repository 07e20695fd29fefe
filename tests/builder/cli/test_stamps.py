"""Stamps: what stands for one definition of an action never stands for another, whoever was killed or asked in between."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

from support.build_command import build, counts, start, warm_build, write_files

_CONFIGS = ("plain", "x")
_NAMES = ("first", "second", "third")


def _build_file(words: dict[str, str]) -> str:
    """A chain of three; each adds a word of its own to what the one before it says, and the configuration's name."""
    lines = [f'config_setting(name = "{name}", values = {{"config": "{name}"}})' for name in _CONFIGS[1:]]
    for number, name in enumerate(_NAMES):
        branches = {f":{config}": f"echo {words[name]} {config}" for config in _CONFIGS[1:]}
        branches["//conditions:default"] = f"echo {words[name]} plain"
        before = f":{_NAMES[number - 1]}" if number else "in.txt"
        lines.append(
            f'genrule(name = "{name}", srcs = ["{before}"], outs = ["{name}.out"], '
            f'cmd = "cat $< > $@; (" + select({branches!r}) + ") >> $@")'
        )
    return "\n".join(lines) + "\n"


def _expected(words: dict[str, str], source: str, config: str, name: str) -> str:
    upto = _NAMES[: _NAMES.index(name) + 1]
    return source + "".join(f"{words[each]} {config}\n" for each in upto)


def test_configurations_edits_and_kills_in_any_order_end_in_the_right_outputs(tmp_path: Path) -> None:
    chance = random.Random(5)
    words = dict.fromkeys(_NAMES, "a")
    source = "0\n"
    root = write_files(tmp_path / "ws", {"BUILD": _build_file(words), "in.txt": source})
    done = []
    for number in range(24):
        config, name = chance.choice(_CONFIGS), chance.choice(_NAMES)
        edit = chance.choice(["none", "word", "word", "source"])
        if edit == "word":
            word = chance.choice(_NAMES)
            words[word] = "b" if words[word] == "a" else "a"
            (root / "BUILD").write_text(_build_file(words))
        elif edit == "source":
            source = chance.choice(["0\n", "1\n"])
            (root / "in.txt").write_text(source)
        arguments = [f"//:{name}", *([] if config == "plain" else ["--config", config])]
        done.append((edit, config, name))
        if number % 3 == 2:
            process = start(root, *arguments)
            try:
                process.wait(chance.uniform(0.05, 0.8))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            continue
        result = warm_build(root, *arguments)
        assert result.returncode == 0, (done, result.stderr)
        assert (root / f"build-out/{name}.out").read_text() == _expected(words, source, config, name), done


def _chain(tmp_path: Path) -> Path:
    return write_files(tmp_path / "ws", {"BUILD": _build_file(dict.fromkeys(_NAMES, "a")), "in.txt": "0\n"})


def test_what_the_cache_has_is_taken_without_asking_ninja(tmp_path: Path) -> None:
    root = _chain(tmp_path)
    assert counts(build(root, "//...")) == (3, 0, 0)
    shutil.rmtree(root / "build-out")
    assert counts(build(root, "//...")) == (0, 3, 0)
    log = root / "build-out/.state/.ninja_log"
    assert not log.exists() or len(log.read_text().splitlines()) == 1, "edges were run"
    assert counts(build(root, "//...")) == (0, 0, 3)


def test_only_what_is_not_known_runs(tmp_path: Path) -> None:
    root = _chain(tmp_path)
    build(root, "//...")
    shutil.rmtree(root / "build-out")
    (root / "BUILD").write_text(_build_file({"first": "a", "second": "b", "third": "a"}))
    assert counts(build(root, "//...")) == (2, 1, 0)


def test_a_table_of_definitions_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    root = _chain(tmp_path)
    build(root, "//...")
    table = root / "build-out/.state/definitions"
    for damage in (b"", b"12\n{}", table.read_bytes()[:-20], b"\xff"):
        table.write_bytes(damage)
        (root / "in.txt").write_text(f"{damage!r}\n")
        result = build(root, "//...")
        assert (result.returncode, counts(result)) == (0, (3, 0, 0))
        assert (root / "build-out/third.out").read_text().startswith(repr(damage))


def test_a_plan_is_the_same_whenever_and_with_whatever_hash_seed_it_is_made(tmp_path: Path) -> None:
    root = _chain(tmp_path)

    def plan(seed: str) -> dict[str, bytes]:
        shutil.rmtree(root / "build-out", ignore_errors=True)
        build(root, "//...", PYTHONHASHSEED=seed)
        (folder,) = (root / "build-out/.state/requests").iterdir()
        return {name: (folder / name).read_bytes() for name in ("actions.json", "build.ninja", "runs.json")}

    assert plan("1") == plan("2")
