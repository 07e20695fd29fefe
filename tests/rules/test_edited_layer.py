"""After an edit of one layer, one partition is compiled; `benchmarks/partitions.py` shows it for 48 layers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rules_executorch import rules
from support.build_command import build
from support.layered_workspace import edit_layer, write_layered_workspace


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A copy of the rules and the engine, so that nobody edits them meanwhile."""
    ignored = shutil.ignore_patterns("__pycache__", "build-out")
    for folder in ("backends", "builder", "lowering", "rules", "runtime"):
        shutil.copytree(Path(rules.__file__).parents[1] / folder, tmp_path / "product" / folder, ignore=ignored)
    (tmp_path / "product/WORKSPACE").write_text('workspace(name = "rules_executorch")\n')
    return tmp_path / "product"


def test_after_an_edit_of_one_layer_one_partition_is_preprocessed_and_the_build_says_so(
    tmp_path: Path, product: Path
) -> None:
    root = write_layered_workspace(tmp_path / "ws", product, layers=4, width=32)
    first = build(root, "//:model")
    assert "4 partitions: 4 preprocessed, 0 from the cache" in first.stdout + first.stderr
    edit_layer(root, 2)
    second = build(root, "//:model", f"--build_event_json_file={tmp_path}/events")
    said = "4 partitions: 1 preprocessed, 3 from the cache"
    assert said in second.stdout + second.stderr
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    printed = {event["action"]["type"]: event["action"].get("printed") for event in events if "action" in event}
    assert printed["LowerModel"] == f"{said}\n"
    made = (root / "build-out/model.pte").read_bytes()
    shutil.rmtree(root / "build-out")
    assert "4 preprocessed" in build(root, "//:model", cache=tmp_path / "another").stderr
    assert (root / "build-out/model.pte").read_bytes() == made
