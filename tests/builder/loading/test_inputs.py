"""What loading read is remembered, and any change of it is noticed, without Starlark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.analysed import write_workspace
from support.loading import SCHEMAS

from rules_executorch.builder.core.diagnostics import BuildError
from rules_executorch.builder.loading import inputs as inputs_module
from rules_executorch.builder.loading.inputs import LoadInputs, from_json, unchanged
from rules_executorch.builder.loading.load import load
from rules_executorch.builder.loading.workspace import find_workspace

FILES = {
    "a/BUILD": 'load("//b:m.bzl", "f")\nf(name = "x", srcs = glob(["src/**/*.py"]) + ["one.txt"], deps = ["//c"])\n',
    "a/src/p.py": "",
    "a/src/deep/q.py": "",
    "a/one.txt": "",
    "b/BUILD": "",
    "b/m.bzl": "def f(**kwargs): thing(**kwargs)\n",
    "c/BUILD": 'thing(name = "c", visibility = ["//visibility:public"])\n',
    "unrelated/BUILD": "",
}

STATUS = st.just(()) | st.tuples(*[st.integers(0, 1 << 62)] * 4)
ENTRIES = st.dictionaries(st.text(max_size=8), st.tuples(STATUS, st.text(max_size=8)), max_size=4)


def loaded(root: Path, *patterns: str) -> LoadInputs:
    return load(find_workspace(root), patterns or ("//a:x",), SCHEMAS).inputs


@given(st.builds(LoadInputs, ENTRIES, ENTRIES, st.integers(0, 1 << 62)))
def test_inputs_survive_json(inputs: LoadInputs) -> None:
    assert from_json(json.loads(json.dumps(inputs.to_json()))) == inputs


def test_nothing_changed_is_seen_as_such(tmp_path: Path) -> None:
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path)
    assert unchanged(inputs)
    assert unchanged(from_json(json.loads(json.dumps(inputs.to_json()))))


def touch_all(root: Path) -> None:
    for path in root.rglob("*"):
        os.utime(path, ns=(1, 1))


def rewrite(path: Path) -> None:
    text = path.read_text()
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        touch_all,
        lambda root: rewrite(root / "a/BUILD"),
        lambda root: rewrite(root / "a/src/p.py"),
        lambda root: (root / "a/src/p.py").write_text("changed"),
        lambda root: (root / "unrelated/BUILD").write_text("changed("),
        lambda root: (root / "build-out").mkdir(),
        lambda root: (root / "a/src/__pycache__").mkdir(),
        lambda root: (root / ".git").mkdir(),
    ],
)
def test_what_loading_does_not_look_at_changes_nothing(tmp_path: Path, change: Callable[[Path], object]) -> None:
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path)
    change(tmp_path)
    assert unchanged(inputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a/BUILD").write_text(FILES["a/BUILD"] + "#"),
        lambda root: (root / "b/m.bzl").write_text(FILES["b/m.bzl"].replace("kwargs", "keyword")),
        lambda root: (root / "WORKSPACE").write_text('workspace(name = "v")\n'),
        lambda root: (root / "a/src/new.py").touch(),
        lambda root: (root / "a/src/deep/q.py").unlink(),
        lambda root: (root / "a/src/deep/q.py").rename(root / "a/src/deep/r.py"),
        lambda root: (root / "a/src/deep/BUILD").touch(),
        lambda root: (root / "a/src/deeper").mkdir(),
        lambda root: (root / "a/one.txt").unlink(),
        lambda root: ((root / "a/one.txt").unlink(), (root / "a/one.txt").mkdir()),
        lambda root: (root / "c/BUILD").unlink(),
        lambda root: shutil.rmtree(root / "b"),
    ],
)
def test_what_would_load_differently_is_noticed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path)
    change(tmp_path)
    assert not unchanged(inputs)


def test_a_new_package_below_a_wildcard_is_noticed(tmp_path: Path) -> None:
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path, "//...")
    (tmp_path / "a/src/deep/new").mkdir()
    assert not unchanged(inputs)


def test_a_change_within_the_clocks_granularity_is_noticed(tmp_path: Path) -> None:
    """Same size, same inode, and all times as they were: as a coarse clock would have it."""
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path)
    path = str(tmp_path / "a/BUILD")
    with open(path, "r+", encoding="utf-8") as file:
        file.write(FILES["a/BUILD"].replace("one", "eno"))
    status = inputs_module.status_of(path)
    inputs.files[path] = (status, inputs.files[path][1])
    assert not unchanged(inputs)


def test_old_files_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_workspace(tmp_path, FILES)
    inputs = loaded(tmp_path)
    # As if loaded a minute after the last change.
    later = LoadInputs(inputs.files, inputs.folders, time.time_ns() + 60_000_000_000)
    monkeypatch.setattr(inputs_module, "digest_content", None)
    assert unchanged(later)


def test_a_mistake_leaves_no_inputs_that_would_hide_it(tmp_path: Path) -> None:
    write_workspace(tmp_path, {"a/BUILD": "thing("})
    with pytest.raises(BuildError):
        loaded(tmp_path)


def test_checking_imports_next_to_nothing(tmp_path: Path) -> None:
    write_workspace(tmp_path, FILES)
    (tmp_path / "inputs.json").write_text(json.dumps(loaded(tmp_path).to_json()))
    script = (
        "import json, sys; from rules_executorch.builder.loading.inputs import *; before = set(sys.modules)\n"
        f"data = json.load(open({str(tmp_path / 'inputs.json')!r}))\n"
        "data['taken'] += 60_000_000_000\n"
        "assert unchanged(from_json(data))\n"
        "print([m for m in ('starlark_go', 'torch', 'dataclasses', 'hashlib') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout.strip() == "[]", result.stderr
