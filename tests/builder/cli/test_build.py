"""`build`: what it makes, when it runs something, and what it says."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.build_command import IMPORTS, build, counts, environment, warm_build, write_files

# b is made from a, and a says only how long its source is.
CHAIN = {
    "p/BUILD": """
genrule(name = "a", srcs = ["in.txt"], outs = ["a.txt"], cmd = "wc -c < $< > $@")
genrule(name = "b", srcs = [":a"], outs = ["b.txt"], cmd = "(echo length; cat $<) > $@")
genrule(name = "c", srcs = ["other.txt"], outs = ["c.txt"], cmd = "cp $< $@")
""",
    "p/in.txt": "abc",
    "p/other.txt": "other",
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return write_files(tmp_path / "ws", CHAIN)


def _out(ws: Path, name: str) -> str:
    return (ws / "build-out" / "p" / name).read_text()


def test_it_builds_and_says_what_and_where(ws: Path) -> None:
    result = build(ws, "//p:b")
    assert result.returncode == 0, result.stderr
    assert "//p:b\n  build-out/p/b.txt\n" in result.stdout
    assert counts(result) == (2, 0, 0)
    assert _out(ws, "b.txt").split() == ["length", "3"]


def test_labels_are_relative_to_the_folder_one_is_in(ws: Path) -> None:
    assert build(ws / "p", ":b", cache=ws.parent / "cache").returncode == 0
    assert build(ws, "-C", "p", "c").returncode == 0
    assert build(ws.parent, "-C", "ws", "//p:all", "-//p:b").returncode == 0
    result = build(ws, "-C", "p", "nothing_like_it")
    assert result.returncode == 1 and "nothing_like_it" in result.stderr


def test_a_second_build_runs_nothing(ws: Path) -> None:
    build(ws, "//...")
    assert counts(build(ws, "//...")) == (0, 0, 3)


_SPY = """
import json
code = main()
json.dump(sorted(sys.modules), open(sys.argv[0], "w"))
sys.exit(code)
"""


def test_a_build_in_which_nothing_changed_loads_nothing_that_is_not_needed(ws: Path, tmp_path: Path) -> None:
    def loaded() -> set[str]:
        program = f"{IMPORTS}; sys.argv[0] = {str(tmp_path / 'modules')!r}\n{_SPY}"
        env = environment(tmp_path / "cache")
        subprocess.run([sys.executable, "-c", program, "//..."], cwd=ws, env=env, check=True, capture_output=True)
        return set(json.loads((tmp_path / "modules").read_text()))

    package = "rules_executorch.builder"
    heavy = {f"{package}.analysis.analyze", f"{package}.execution.runner", f"{package}.loading.load"}
    assert heavy <= loaded(), "the first build needs them, so the second shows something"
    second = loaded()
    assert not second & {*heavy, "torch", "rich", "starlark_go", "executorch", "dataclasses", "sqlite3", "subprocess"}


def test_deleting_the_outputs_runs_nothing(ws: Path) -> None:
    build(ws, "//...")
    before = _out(ws, "b.txt")
    shutil.rmtree(ws / "build-out")
    assert counts(build(ws, "//...")) == (0, 3, 0)
    assert _out(ws, "b.txt") == before
    assert counts(build(ws, "//...")) == (0, 0, 3)


def test_another_copy_of_the_workspace_runs_nothing(ws: Path) -> None:
    build(ws, "//...")
    other = shutil.copytree(ws, ws.parent / "elsewhere" / "copy", ignore=shutil.ignore_patterns("build-out"))
    assert counts(build(other, "//...", cache=ws.parent / "ws-cache")) == (0, 3, 0)


def test_an_edit_runs_what_depends_on_it(ws: Path) -> None:
    build(ws, "//...")
    (ws / "p/in.txt").write_text("abcd")
    assert counts(build(ws, "//...")) == (2, 0, 1)
    assert _out(ws, "b.txt").split() == ["length", "4"]


def test_an_edit_without_effect_goes_no_further(ws: Path) -> None:
    build(ws, "//...")
    (ws / "p/in.txt").write_text("cba")
    assert counts(build(ws, "//...")) == (1, 0, 2)
    assert counts(build(ws, "//...")) == (0, 0, 3)


def test_an_edit_undone_comes_from_the_cache(ws: Path) -> None:
    build(ws, "//...")
    (ws / "p/in.txt").write_text("abcd")
    build(ws, "//...")
    (ws / "p/in.txt").write_text("abc")
    assert counts(build(ws, "//...")) == (0, 2, 1)
    assert _out(ws, "b.txt").split() == ["length", "3"]


def test_a_source_replaced_by_an_older_file_is_seen(ws: Path) -> None:
    (ws / "p/older.txt").write_text("much older")
    os.utime(ws / "p/older.txt", (1_000_000_000, 1_000_000_000))
    build(ws, "//...")
    os.replace(ws / "p/older.txt", ws / "p/in.txt")
    build(ws, "//...")
    assert _out(ws, "b.txt").split() == ["length", "10"]


def test_a_source_replaced_by_an_older_file_is_seen_by_a_request_never_made_before(ws: Path) -> None:
    (ws / "p/older.txt").write_text("much older")
    os.utime(ws / "p/older.txt", (1_000_000_000, 1_000_000_000))
    build(ws, "//...")
    os.replace(ws / "p/older.txt", ws / "p/in.txt")
    build(ws, "//p:b")
    assert _out(ws, "b.txt").split() == ["length", "10"]


def test_a_source_replaced_while_its_target_was_away_is_seen_when_that_is_back(ws: Path) -> None:
    text = CHAIN["p/BUILD"]
    (ws / "p/older.txt").write_text("older")
    os.utime(ws / "p/older.txt", (1_000_000_000, 1_000_000_000))
    build(ws, "//...")
    os.replace(ws / "p/older.txt", ws / "p/other.txt")
    (ws / "p/BUILD").write_text(text.replace('"c"', '"d"').replace('"c.txt"', '"d.txt"'))
    build(ws, "//...")
    (ws / "p/BUILD").write_text(text)
    build(ws, "//...")
    assert _out(ws, "c.txt") == "older"


def test_a_source_replaced_by_an_older_file_is_seen_without_the_memory_of_the_last_build(ws: Path) -> None:
    (ws / "p/older.txt").write_text("much older")
    os.utime(ws / "p/older.txt", (1_000_000_000, 1_000_000_000))
    build(ws, "//...")
    os.replace(ws / "p/older.txt", ws / "p/in.txt")
    (watch,) = (ws / "build-out/.state/requests").glob("*/watch")
    watch.write_bytes(b"damaged")
    build(ws, "//...")
    assert _out(ws, "b.txt").split() == ["length", "10"]


def test_a_source_with_its_times_set_back_is_seen(ws: Path) -> None:
    build(ws, "//...")
    times = os.stat(ws / "p/in.txt")
    (ws / "p/in.txt").write_text("abcdef")
    os.utime(ws / "p/in.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    build(ws, "//...")
    assert _out(ws, "b.txt").split() == ["length", "6"]


def test_a_tampered_output_is_restored(ws: Path) -> None:
    build(ws, "//...")
    output = ws / "build-out/p/a.txt"
    output.unlink()
    output.write_text("99")
    build(ws, "//...")
    assert _out(ws, "a.txt").strip() == "3"
    assert _out(ws, "b.txt").split() == ["length", "3"]


def test_a_deleted_output_is_restored_without_running(ws: Path) -> None:
    build(ws, "//...")
    (ws / "build-out/p/a.txt").unlink()
    assert counts(build(ws, "//...")) == (0, 1, 2)


def test_a_corrupted_store_is_rebuilt_from(ws: Path) -> None:
    build(ws, "//...")
    for blob in (ws.parent / "ws-cache/cas").glob("*/*"):
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes()[::-1] or b"x")
    shutil.rmtree(ws / "build-out")
    assert build(ws, "//...").returncode == 0
    assert _out(ws, "b.txt").split() == ["length", "3"]
    assert _out(ws, "c.txt") == "other"


def test_what_is_kept_of_a_request_may_be_damaged_anywhere(ws: Path) -> None:
    chance = random.Random(0)
    build(ws, "//...")
    names = {path.name for path in (ws / "build-out/.state/requests").glob("*/*")}
    assert {"actions.json", "build.ninja", "request.json", "runs.json", "watch"} <= names
    for number, name in enumerate(sorted(names) * 4):
        (path,) = (ws / "build-out/.state/requests").glob(f"*/{name}")
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        if number % 2:
            (ws / "p/in.txt").write_text("x" * (number + 1))
        result = warm_build(ws, "//...")
        assert result.returncode == 0, (name, result.stderr)
        assert number % 2 == 0 or _out(ws, "b.txt").split() == ["length", str(number + 1)], name


def test_asking_for_other_targets_forgets_nothing(ws: Path) -> None:
    build(ws, "//...")
    for _ in range(2):
        assert counts(build(ws, "//p:b")) == (0, 0, 2)
        assert counts(build(ws, "//p:c")) == (0, 0, 1)
        assert counts(build(ws, "//...")) == (0, 0, 3)


def test_a_changed_build_file_runs_what_it_changes(ws: Path) -> None:
    build(ws, "//...")
    text = (ws / "p/BUILD").read_text()
    (ws / "p/BUILD").write_text(text.replace("echo length", "echo size"))
    assert counts(build(ws, "//...")) == (1, 0, 2)
    assert _out(ws, "b.txt").split() == ["size", "3"]
    (ws / "p/BUILD").write_text("# a comment\n" + (ws / "p/BUILD").read_text())
    assert counts(build(ws, "//...")) == (0, 0, 3)


def test_configs_select_and_do_not_rebuild_the_rest(tmp_path: Path) -> None:
    ws = write_files(
        tmp_path / "ws",
        {
            "BUILD": """
config_setting(name = "release", values = {"config": "release"})
genrule(name = "a", outs = ["a"], cmd = select({":release": "echo fast > $@", "//conditions:default": "echo slow > $@"}))
genrule(name = "b", outs = ["b"], cmd = "echo b > $@")
"""
        },
    )
    out = ws / "build-out/a"
    assert counts(build(ws, "//:all")) == (2, 0, 0) and out.read_text() == "slow\n"
    assert counts(build(ws, "--config", "release", "//:all")) == (1, 0, 1) and out.read_text() == "fast\n"
    assert counts(build(ws, "//:all")) == (0, 1, 1) and out.read_text() == "slow\n"
    assert counts(build(ws, "--config=release", "//:all")) == (0, 1, 1) and out.read_text() == "fast\n"


FAILING = {
    "BUILD": """
genrule(name = "bad", outs = ["bad.txt"], cmd = "echo it went wrong >&2; exit 7")
genrule(name = "after", srcs = [":bad"], outs = ["after.txt"], cmd = "cp $< $@")
genrule(name = "good", outs = ["good.txt"], cmd = "echo good > $@")
genrule(name = "later", srcs = [":good"], outs = ["later.txt"], cmd = "cp $< $@")
"""
}


def test_a_failure_is_told_with_its_output_and_a_command(tmp_path: Path) -> None:
    result = build(write_files(tmp_path / "ws", FAILING), "//:bad")
    assert result.returncode == 1
    assert "error: Genrule of //:bad failed with exit status 7\nit went wrong\n  to run it again: cd " in result.stderr
    assert "build failed" in result.stdout and "Traceback" not in result.stderr


def test_keep_going_builds_all_that_can_be_built(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", FAILING)
    result = build(ws, "-k", "-j1", "//...")
    assert result.returncode == 1
    assert (ws / "build-out/later.txt").exists() and not (ws / "build-out/after.txt").exists()
    assert "2 ran" in result.stdout


def test_without_it_the_first_failure_ends_the_build(tmp_path: Path) -> None:
    broken = {"BUILD": "".join(f'genrule(name = "b{n}", outs = ["o{n}"], cmd = "exit 1")\n' for n in range(5))}
    result = build(write_files(tmp_path / "ws", broken), "-j1", "//...")
    assert result.returncode == 1 and result.stderr.count("failed with exit status 1") == 1


def test_what_failed_runs_again_and_only_that(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", FAILING)
    build(ws, "-k", "//...")
    text = (ws / "BUILD").read_text()
    (ws / "BUILD").write_text(text.replace("exit 7", "echo mended > $@"))
    assert counts(build(ws, "//...")) == (2, 0, 2)


def test_what_actions_print_is_shown(tmp_path: Path) -> None:
    ws = write_files(tmp_path / "ws", {"BUILD": 'genrule(name = "x", outs = ["x"], cmd = "echo careful >&2; touch $@")'})
    assert "Genrule //:x printed:\ncareful" in build(ws, "//:x").stderr


def test_explain_names_what_changed(ws: Path) -> None:
    assert "Genrule //p:a ran: no earlier run of it is known here" in build(ws, "--explain", "//p:a").stderr
    (ws / "p/in.txt").write_text("abcd")
    assert "Genrule //p:a ran: input w/p/in.txt changed" in build(ws, "--explain", "//p:a").stderr


def test_a_source_that_disappears_is_told(ws: Path) -> None:
    build(ws, "//p:b")
    (ws / "p/in.txt").unlink()
    result = build(ws, "//p:b")
    assert result.returncode == 1 and "in.txt" in result.stderr and "Traceback" not in result.stderr


def test_a_cache_that_cannot_be_written_is_told(ws: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = build(ws, f"--disk_cache={tmp_path / 'file' / 'cache'}", "//p:b")
    assert result.returncode == 1
    assert f"error: the cache {tmp_path / 'file' / 'cache'} cannot be used" in result.stderr


def test_the_cache_is_where_the_option_says(ws: Path, tmp_path: Path) -> None:
    build(ws, f"--disk_cache={tmp_path / 'mine'}", "//p:b")
    assert (tmp_path / "mine" / "ac").is_dir() and not (tmp_path / "ws-cache").exists()


def test_the_cache_is_by_default_in_the_users_cache_folder(ws: Path, tmp_path: Path) -> None:
    build(ws, "//p:b", RULES_EXECUTORCH_CACHE="", XDG_CACHE_HOME=str(tmp_path / "home-cache"), HOME=str(tmp_path))
    assert list(tmp_path.glob("**/rules_executorch/ac"))


def test_an_action_that_looks_above_its_folder_does_not_find_the_workspace(tmp_path: Path) -> None:
    look = "d=$$PWD; while [ $$d != / ]; do [ ! -e $$d/WORKSPACE ] || echo found $$d; d=$$(dirname $$d); done > $@"
    ws = write_files(tmp_path / "ws", {"BUILD": f'genrule(name = "x", outs = ["x"], cmd = "{look}")'})
    assert build(ws, "//:x").returncode == 0
    assert (ws / "build-out/x").read_text() == ""


def test_clean_removes_outputs_and_keeps_the_cache(ws: Path) -> None:
    build(ws, "//...")
    assert build(ws, "clean").returncode == 0
    assert not (ws / "build-out").exists()
    assert counts(build(ws, "//...")) == (0, 3, 0)
