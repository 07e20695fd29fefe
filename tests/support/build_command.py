"""Small workspaces on disk, and the command `build` run in them as a user runs it: in a process of its own."""

from __future__ import annotations

import multiprocessing.connection
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import rules_executorch.builder

# The package that the test itself imports: among the inputs where the test is an action, else the installed one.
_PACKAGE = Path(rules_executorch.builder.__file__).parents[1]
_ROOTS = [str(_PACKAGE.parent)] if _PACKAGE.name == "rules_executorch" else []
IMPORTS = f"import sys; sys.path[:0] = {_ROOTS!r}; from rules_executorch.builder.cli import main"
BUILD = (sys.executable, "-c", f"{IMPORTS}; sys.exit(main())")


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """Write text files below `root`, which gets a WORKSPACE unless it has one. Returns `root`."""
    for name, text in {"WORKSPACE": 'workspace(name = "w")\n', **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def environment(cache: Path, **more: str) -> dict[str, str]:
    """What `build` is given: a cache of the test's own, and no terminal's width or colors."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RULES_EXECUTORCH", "COLUMNS", "NO_COLOR"))}
    # For the processes that `build` starts of itself.
    roots = {"PYTHONPATH": os.pathsep.join(_ROOTS)} if _ROOTS else {}
    return {**kept, **roots, "RULES_EXECUTORCH_CACHE": str(cache), **more}


def build(
    root: Path, *arguments: str, cache: Path | None = None, timeout: float = 300, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `build` in folder `root`, for at most `timeout` seconds; `cache` is by default beside it."""
    cache = cache or root.parent / f"{root.name}-cache"
    return subprocess.run(
        [*BUILD, *arguments], cwd=root, env=environment(cache, **more), capture_output=True, text=True, timeout=timeout
    )


def warm_build(
    root: Path, *arguments: str, cache: Path | None = None, timeout: float = 300, **more: str
) -> subprocess.CompletedProcess[str]:
    """As `build`, in a new process that is forked from one which has imported what a build needs: twice as fast.

    Safe to use from several threads.
    """
    cache = cache or root.parent / f"{root.name}-cache"
    with tempfile.TemporaryDirectory() as folder:
        process = _FORKS.Process(target=_main, args=(str(root), arguments, environment(cache, **more), folder))
        # start() looks after the processes of other threads, too, and two must not ask for one's status at once.
        with _FORKING:
            process.start()
        ended = multiprocessing.connection.wait([process.sentinel], timeout)
        with _FORKING:
            if not ended:
                process.kill()
            process.join()
        if not ended:
            raise subprocess.TimeoutExpired(arguments, timeout)
        printed = [Path(folder, name).read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(arguments, process.exitcode, *printed)


_FORKING = threading.Lock()
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "platformdirs.unix",
        "pytest",
        "rules_executorch.builder.cli",
        "rules_executorch.builder.commands.analysis",
        "rules_executorch.builder.commands.build",
        "rules_executorch.builder.commands.options",
        "rules_executorch.builder.commands.perform",
        "rules_executorch.builder.commands.progress",
        "rules_executorch.builder.execution.ninja_file",
        "rules_executorch.builder.loading.load",
        "support.build_command",
    ]
)


def _main(root: str, arguments: tuple[str, ...], variables: dict[str, str], folder: str) -> None:
    """The process of a warm build: as if it had been started as a command."""
    from rules_executorch.builder.cli import main

    for number, name in ((1, "stdout"), (2, "stderr")):
        with open(os.path.join(folder, name), "wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(root)
    sys.exit(main(list(arguments)))


def counts(result: subprocess.CompletedProcess[str]) -> tuple[int, int, int]:
    """How many actions (ran, came from the cache, were up to date), as the build says."""
    match = re.search(r"(\d+) actions?: (\d+) ran, (\d+) from the cache, (\d+) up to date", result.stdout + result.stderr)
    assert match, f"no closing line in:\n{result.stdout}\n{result.stderr}"
    total, *parts = map(int, match.groups())
    assert sum(parts) == total
    return tuple(parts)  # type: ignore[return-value]


def start(root: Path, *arguments: str, cache: Path | None = None, **more: str) -> subprocess.Popen[str]:
    """Start `build` in a process group of its own, for signals."""
    cache = cache or root.parent / f"{root.name}-cache"
    return subprocess.Popen(
        [*BUILD, *arguments],
        cwd=root,
        env=environment(cache, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Wait until `condition` holds, as long as `process` lives."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()}")
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError("waited too long")
        time.sleep(0.005)


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def parent_of_sleep(seconds: str, process: subprocess.Popen[str]) -> int:
    """Wait for `sleep SECONDS` below `process`; the process that started it, as the test sees it.

    An action cannot be heard from outside of its sandbox otherwise. `seconds` is a number that no other test uses.
    """
    found: list[int] = []

    def look() -> bool:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                    ancestors = list(_ancestors(int(folder.name)))
                    found.extend(ancestors[:1] if process.pid in ancestors else [])
            except OSError:  # it has ended meanwhile
                continue
        return bool(found)

    wait_for(look, process)
    return found[0]
