"""After any edit, what an incremental build makes is what a clean build makes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.build_command import build, warm_build
from support.generated_workspace import GeneratedWorkspace


def test_incremental_builds_equal_clean_ones(tmp_path: Path, how_many: Callable[[int, int], int]) -> None:
    """At full size, ten workspaces are edited a thousand times each, and some at once, so that all processors are busy.

    `FAULTS_SEEDS="3 7"` edits these of the workspaces only: what is left of an interrupted run, or one that failed.
    """
    in_all = how_many(24, 10_000)
    each = min(in_all // 2, 1000)
    seeds = [int(seed) for seed in os.environ.get("FAULTS_SEEDS", "").split()] or range(1, in_all // each + 1)
    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(lambda seed: _edit_and_build(tmp_path / f"seed{seed}", seed, each), seeds))


def _edit_and_build(folder: Path, seed: int, edits: int) -> None:
    """Make random edits, every fifth together with another, and build after each.

    A clean build's outputs are told by the generator; that it tells them right is checked now and then.
    """
    workspace = GeneratedWorkspace(folder / "ws", seed)
    done = ["made it"]
    for number in range(edits + 1):
        result = warm_build(workspace.root, "//...", cache=folder / "cache")
        assert result.returncode == 0, (seed, number, done, result.stderr)
        assert workspace.found() == workspace.expected(), (seed, number, done)
        if number % 100 == 0:
            _build_clean(workspace, folder)
            print(f"{time.strftime('%X')} seed {seed}: {number} edits, each built", flush=True)
        done = [*done[-20:], workspace.edit()]
        if workspace.random.random() < 0.2:  # several edits at once
            done.append(workspace.edit())


def _build_clean(workspace: GeneratedWorkspace, folder: Path) -> None:
    clean = folder / "clean"
    shutil.copytree(workspace.root, clean / "ws", ignore=shutil.ignore_patterns("build-out"))
    assert build(clean / "ws", "//...", cache=clean / "cache").returncode == 0
    for path, text in workspace.expected().items():
        assert (clean / "ws/build-out" / path).read_text() == text
    shutil.rmtree(clean)


def test_requests_for_parts_and_for_all_do_not_mislead_each_other(
    tmp_path: Path, how_many: Callable[[int, int], int]
) -> None:
    workspace = GeneratedWorkspace(tmp_path / "ws", 4)
    done = ["made it"]
    for _ in range(how_many(8, 200)):
        package = workspace.random.choice(list(workspace.packages))
        name = workspace.random.choice(["all", *workspace.packages[package].targets])
        parts = {"//...": "", f"//{package}/...": f"{package}/", f"//{package}:{name}": f"{package}/{name}.out"}
        pattern = workspace.random.choice([pattern for pattern in parts if not pattern.endswith(":all")])
        done = [*done[-20:], f"built {pattern}"]
        result = warm_build(workspace.root, pattern)
        assert result.returncode == 0, (done, result.stderr)
        wrong = [path for path, text in workspace.expected().items() if workspace.found()[path] != text]
        assert [path for path in wrong if path.startswith(parts[pattern])] == [], done
        done.append(workspace.edit())


def test_a_mistake_that_is_taken_back_leaves_no_trace(tmp_path: Path, how_many: Callable[[int, int], int]) -> None:
    workspace = GeneratedWorkspace(tmp_path / "ws", 3)
    for _ in range(how_many(3, 200)):
        path = workspace.root / workspace.random.choice(list(workspace.packages)) / "BUILD"
        text = path.read_text()
        path.write_text(text + workspace.random.choice(["genrule(", "x = y\n", 'join(name = "a b")\n', "1 / 0\n"]))
        assert warm_build(workspace.root, "//...").returncode == 1
        path.write_text(text)
        workspace.edit()
        assert warm_build(workspace.root, "//...").returncode == 0
        assert workspace.found() == workspace.expected()
