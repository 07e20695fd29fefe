"""How benchmarks measure: each run in a process of its own, the engines in turn, medians."""

from __future__ import annotations

import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version


class Stopwatch:
    """Seconds by stage, in the order in which the stages ran, by `clock`.

    time.process_time counts the processor time of all threads, which a busy machine disturbs least.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = self._clock()
        yield
        self.seconds[name] = self._clock() - start


def peak_memory_mib() -> float:
    """The largest resident size of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fastest_ms(call: Callable[[], object], seconds: float = 2.0) -> float:
    """The processor time of the fastest call in milliseconds, after a warm-up: what a busy machine disturbs least."""
    call()
    fastest, calls, end = float("inf"), 0, time.perf_counter() + seconds
    while calls < 3 or time.perf_counter() < end:
        start = time.process_time()
        call()
        fastest, calls = min(fastest, (time.process_time() - start) * 1000), calls + 1
    return fastest


def in_child(script: str, *arguments: str, timeout: float = 1800) -> dict:
    """Run a benchmark script's own child mode and return the JSON of its last line.

    Raises:
        RuntimeError: the child failed; the message ends with what it printed.
    """
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turn(script: str, ways: Sequence[str], model: str, repeat: int) -> dict[str, list[dict]]:
    """Run a script's child mode `--child WAY MODEL` for one way after the other, `repeat` times; the results by way."""
    runs: dict[str, list[dict]] = {way: [] for way in ways}
    for number in range(repeat):
        for way in ways:
            print(f"{model} {way}: {number + 1} of {repeat}", file=sys.stderr)
            runs[way].append(in_child(script, "--child", way, model))
    return runs


def medians(runs: list[dict]) -> dict:
    """The median of every number in equally shaped (nested) results; other values from the first."""
    first = runs[0]
    merged: dict = {}
    for key, value in first.items():
        values = [run[key] for run in runs]
        if isinstance(value, dict):
            merged[key] = medians(values)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            merged[key] = statistics.median(values)
        else:
            merged[key] = value
    return merged


def versions() -> str:
    """What was measured on what, in one line."""
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "executorch", "rules_executorch"))
    return f"{names}, CPython {platform.python_version()}, {platform.machine()}"
