"""Building a model again after an edit of one layer: how many partitions are compiled, and what that saves.

    python benchmarks/partitions.py [--layers 48] [--width 256]

A workspace has an encoder of so many layers, each of which XNNPACK gets as a partition of its own. The command
`build` builds it, then again after an edit of one layer, with what earlier builds kept and without. Seconds of the
action LowerModel are wall-clock time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT / "benchmarks"), str(CHECKOUT / "tests")]
from measure import versions  # noqa: E402
from support.build_command import build  # noqa: E402
from support.layered_workspace import edit_layer, write_layered_workspace  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    print(f"{versions()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print("| build | what LowerModel says | seconds |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = write_layered_workspace(folder / "workspace", CHECKOUT, layers=options.layers, width=options.width)
        print_row("the first", root, folder / "cache")
        edit_layer(root, options.layers // 2)
        print_row("one layer edited", root, folder / "cache")
        print_row("the same without a cache", root, folder / "empty")


def print_row(title: str, root: Path, cache: Path) -> None:
    """Build, and print what the action that lowers said, and how long it took."""
    events = root.parent / "events"
    # Outputs that are there would be up to date whatever the cache has.
    shutil.rmtree(root / "build-out", ignore_errors=True)
    done = build(root, "//:model", f"--build_event_json_file={events}", cache=cache, timeout=3000)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    records = [json.loads(line) for line in events.read_text().splitlines()]
    (lowered,) = [r["action"] for r in records if r.get("action", {}).get("type") == "LowerModel"]
    print(f"| {title} | {lowered['printed'].strip()} | {seconds(lowered):.1f} |", flush=True)


def seconds(action: dict) -> float:
    """How long an action took."""
    started, ended = (datetime.fromisoformat(action[name].rstrip("Z")) for name in ("startTime", "endTime"))
    return (ended - started).total_seconds()


if __name__ == "__main__":
    main()
