"""The builder on workspaces of growing size: ours, ninja alone and, where it is installed, Bazel, in one run.

    python benchmarks/builder.py [--kind genrule|model] [--sizes 10,100,1000] [--repeat 15] [--markdown]

What is measured, in milliseconds of wall-clock time, medians of runs in turn:

- first: everything runs, once. (With `--folder`, only where it has not been run before.)
- null: nothing changed. For ours and ninja also the processor time, which other load does not blur.
- touched: the content of one source changed.
- BUILD: a comment in one BUILD file changed. macro: in the .bzl file that all packages load.
- cold: the outputs and all that was remembered of the workspace are gone, the cache is not (Bazel: its server is
  gone, its output base is not).

Models are lowered by a stand-in for the engine (see workspaces.py), genrules copy a file.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from workspaces import make_workspace, write, write_ninja_file  # noqa: E402

SCENARIOS = ("first", "null", "null, processor", "touched", "BUILD", "macro", "cold")
_TIMEOUT = 7200

Commands = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("genrule", "model"), default="genrule")
    parser.add_argument("--sizes", default="10,100,1000", help="how many targets, e.g. 10,100,1000,10000")
    parser.add_argument("--repeat", type=int, default=15, help="how often the null build is measured; others a third")
    parser.add_argument("--folder", type=Path, help="where to work, and leave the workspaces for the next time")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for size in map(int, options.sizes.split(",")):
            folder = (options.folder or Path(scratch)) / f"{options.kind}{size}"
            for system, times in measure(folder, options.kind, size, options.repeat).items():
                rows.append((size, system, times))
                print(f"{size} {system}: {times}", file=sys.stderr)
    print_table(rows, markdown=options.markdown)


def measure(folder: Path, kind: str, size: int, repeat: int) -> dict[str, dict[str, float]]:
    """Milliseconds by system and scenario, for workspaces of `size` targets below `folder`, one for each system.

    In one for all, each would find what the others leave at its root.
    """
    systems = {"build": ours(folder)}
    if kind == "genrule":
        systems["ninja"] = ninja()
        systems.update({"bazel": command for command in bazel(folder)})
    sources = {name: workspace_of(folder / name / "workspace", kind, size) for name in systems}
    roots = {name: folder / name / "workspace" for name in systems}
    if "ninja" in systems:
        write_ninja_file(roots["ninja"], sources["ninja"])
    results: dict[str, dict[str, float]] = {name: {} for name in systems}
    for name, command in systems.items():
        print(f"{size} {name}: the first build", file=sys.stderr)
        is_first = not any((roots[name] / made).exists() for made in ("build-out", "bazel-out", "ninja-out"))
        first, _ = run(command, roots[name])
        if is_first:
            results[name]["first"] = first
        time.sleep(0.1)  # what was made a clock's tick ago is not trusted yet
        for _ in range(3):
            run(command, roots[name])
    nulls: dict[str, list[tuple[float, float]]] = {name: [] for name in systems}
    for _ in range(repeat):
        for name, command in systems.items():
            nulls[name].append(run(command, roots[name]))
    for name, times in nulls.items():
        results[name]["null"] = statistics.median(wall for wall, _ in times)
        if name != "bazel":  # its work is its server's
            results[name]["null, processor"] = statistics.median(processor for _, processor in times)
    for name, command in systems.items():
        for scenario, change in changes(roots[name], sources[name], folder).items():
            if name == "ninja" and scenario != "touched":
                continue
            walls = []
            for number in range(max(1, repeat // 3)):
                change(name, number)
                walls.append(run(command, roots[name])[0])
            run(command, roots[name])
            results[name][scenario] = statistics.median(walls)
    if "bazel" in systems:
        subprocess.run(["bazel", f"--output_base={folder / 'base'}", "shutdown"], cwd=roots["bazel"], check=False)
    return results


def workspace_of(root: Path, kind: str, size: int) -> list[Path]:
    """The sources of the workspace at `root`, which is made if it is not there."""
    if not root.exists():
        return make_workspace(root, kind, size)
    suffix = {"genrule": "txt", "model": "py"}[kind]
    return sorted(root.glob(f"p*/t*.{suffix}"))


def ours(folder: Path) -> list[str]:
    """Our command, with a cache of its own."""
    os.environ["RULES_EXECUTORCH_CACHE"] = str(folder / "cache")
    return [str(Path(sys.executable).with_name("build")), "//..."]


def ninja() -> list[str]:
    """Ninja's command, for a file of the same shape."""
    from rules_executorch.builder.execution.ninja import find_ninja

    return [find_ninja()]


def bazel(folder: Path) -> list[list[str]]:
    """Bazel's command, or none where it is not installed."""
    if shutil.which("bazel") is None:
        return []
    options = ["--noshow_progress", "--ui_event_filters=-info", "--show_result=0"]
    return [["bazel", f"--output_base={folder / 'base'}", "build", *options, "//..."]]


def changes(root: Path, sources: list[Path], folder: Path) -> dict[str, Callable[[str, int], object]]:
    """What changes before a build, by scenario: functions of the system's name and a number, new each time."""

    def comment(path: Path, system: str, number: int) -> None:
        lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("# changed")]
        write(path, "\n".join([*kept, f"# changed {system} {number} {time.time_ns()}"]) + "\n")

    def cold(system: str, number: int) -> None:
        if system == "bazel":
            subprocess.run(["bazel", f"--output_base={folder / 'base'}", "shutdown"], cwd=root, check=True)
        shutil.rmtree(root / "build-out", ignore_errors=True)

    return {
        "touched": lambda system, number: comment(sources[number % len(sources)], system, number),
        "BUILD": lambda system, number: comment(root / "p0/BUILD", system, number),
        "macro": lambda system, number: comment(root / "macros/macros.bzl", system, number),
        "cold": cold,
    }


def run(command: list[str], root: Path) -> tuple[float, float]:
    """Run a command that must succeed: its wall-clock and processor time, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, processor * 1000


def print_table(rows: list[tuple[int, str, dict[str, float]]], *, markdown: bool) -> None:
    """A line for each size and system."""
    table = [["targets", "", *SCENARIOS]]
    for size, system, times in rows:
        table.append([str(size), system, *(f"{times[s]:.0f}" if s in times else "" for s in SCENARIOS)])
    if markdown:
        table.insert(1, ["---"] * len(table[0]))
        print("\n".join(f"| {' | '.join(row)} |" for row in table))
        return
    widths = [max(map(len, column)) for column in zip(*table)]
    print("\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in table))


if __name__ == "__main__":
    main()
