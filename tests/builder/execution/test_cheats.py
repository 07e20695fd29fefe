"""Actions that cheat, each behind each sandbox: what comes of it is what docs/hermeticity.md says."""

from __future__ import annotations

import contextlib
import functools
import os
import py_compile
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cheats import CAUGHT, CHEATS, HARMLESS, OPEN, Cheat, table

from rules_executorch.builder.cache.disk import DiskActionCache, DiskStore
from rules_executorch.builder.cache.file_digests import FileDigests
from rules_executorch.builder.core.action import Action, Artifact
from rules_executorch.builder.execution.distributions import site_folders
from rules_executorch.builder.execution.isolation import Mode
from rules_executorch.builder.execution.layout import Layout
from rules_executorch.builder.execution.namespaces import HOME, HOST_NAME, USER
from rules_executorch.builder.execution.probe import why_not
from rules_executorch.builder.execution.processes import Processes
from rules_executorch.builder.execution.runner import ActionFailed, Machine, run_action
from rules_executorch.builder.execution.toolchains import host_toolchains

PAGE = Path(__file__).parents[3] / "docs" / "hermeticity.md"
TOOLCHAINS = host_toolchains()


@functools.cache
def _works(mode: Mode) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        return why_not(mode, Path(folder))


def _hash_of_x() -> int:
    command = [sys.executable, "-c", "print(hash('x'))"]
    return int(subprocess.run(command, env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True).stdout)


class Host:
    """The machine and the workspace on which cheats are tried, and what they could change."""

    def __init__(self, folder: Path, mode: Mode):
        self.folder = folder
        self.unique = f"cheat-{os.getpid()}-{folder.name}"
        self.ws = folder / "ws"
        self.cache = folder / "cache"
        package = self.ws / "p"
        package.mkdir(parents=True)
        (self.ws / "BUILD").touch()
        self.secret = package / "secret.txt"
        self.secret.write_text("secret\n")
        self.source = package / "in"
        self.source.write_text("input\n")
        (package / "undeclared_module.py").write_text("")
        self.program = package / "program"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)
        self._write_stale_bytecode(package / "stale.py")
        store = DiskStore(self.cache)
        self.sandboxes = folder / "sandboxes"
        self.machine = Machine(
            Layout(self.ws, "w"),
            TOOLCHAINS,
            store,
            DiskActionCache(self.cache, store),
            FileDigests(folder / "digests.sqlite"),
            Processes(),
            self.sandboxes,
            lambda: mode,
        )

    def _write_stale_bytecode(self, source: Path) -> None:
        """Bytecode that the interpreter takes for that of `source`, by its time and size, and that is of another."""
        source.write_text("TEXT = 'CHEATED'\n")
        os.utime(source, (1e9, 1e9))
        py_compile.compile(str(source))
        source.write_text("TEXT = 'honest.'\n")
        os.utime(source, (1e9, 1e9))

    @contextlib.contextmanager
    def names(self) -> Iterator[dict[str, object]]:
        """What stands in braces in the scripts of cheats; servers run meanwhile."""
        with contextlib.ExitStack() as stack:

            def server(family: int, kind: int, address: object) -> socket.socket:
                listener = stack.enter_context(socket.socket(family, kind))
                listener.bind(address)
                if kind == socket.SOCK_STREAM:
                    listener.listen()
                return listener

            self.udp = server(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
            self.udp.setblocking(False)
            unix = tempfile.mktemp(prefix="cheat-", suffix=".socket")
            stack.callback(lambda: os.path.exists(unix) and os.unlink(unix))
            server(socket.AF_UNIX, socket.SOCK_STREAM, unix)
            server(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.unique}")
            descriptor = os.open(self.secret, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            os.set_inheritable(descriptor, True)
            yield {
                "ws": self.ws,
                "secret": self.secret,
                "source": self.source,
                "program": self.program,
                "cache": self.cache,
                "sandboxes": self.sandboxes,
                "home": os.path.expanduser("~"),
                "descriptor": descriptor,
                "modified": int(self.source.stat().st_mtime),
                "unique": self.unique,
                "number": os.getpid(),
                "seconds": f"1000.{os.getpid()}",
                "site_packages": site_folders()[0],
                "base_site_packages": Path(os.path.realpath(sys.base_prefix), *Path(site_folders()[0]).parts[-3:]),
                "tcp": server(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)).getsockname()[1],
                "tcp6": server(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)).getsockname()[1],
                "udp": self.udp.getsockname()[1],
                "unix": unix,
                "builder": os.getpid(),
                "host": os.uname().nodename,
                "user": os.getuid(),
                "hash": _hash_of_x(),
                "processors": os.cpu_count(),
            }

    def run(self, script: str, python: bool, output: str) -> str:
        """Run a script as an action; what it printed. Raises ActionFailed."""
        inputs = [Artifact("w/p/in", self.source), Artifact("w/p/stale.py", self.ws / "p/stale.py")]
        if python:
            (self.ws / "p/cheat.py").write_text(f"import sys\nsys.stdout = open('{output}', 'w')\n{script}\n")
            inputs.append(Artifact("w/p/cheat.py", self.ws / "p/cheat.py"))
            toolchain, argv = "python", ("--import-root=w/p", "cheat")
        else:
            toolchain, argv = "shell", ("-c", f"set -eo pipefail\nexec > {output}\n{script}\n:")
        action = Action("Genrule", toolchain, argv, tuple(inputs), (Artifact(output),), owner="//p:x")
        run_action(self.machine, action)
        return self.machine.layout.output(output).read_text()

    def sleeps(self) -> bool:
        wanted = f"sleep\0001000.{os.getpid()}\0".encode()
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if file.read_bytes() == wanted:
                    return True
        return False

    def changed(self) -> bool:
        return self.source.read_text() != "input\n" or bool(self.source.stat().st_mode & 0o111)

    def has_extra(self) -> bool:
        return bool(list(self.ws.rglob("extra")))

    def has_new(self) -> bool:
        return (self.ws / "p/new").exists()

    def has_no_secret(self) -> bool:
        return not self.secret.exists()

    def has_toolchain_file(self) -> bool:
        return any(Path(folder, self.unique).exists() for folder in site_folders())

    def was_told(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            return bool(self.udp.recv(1))
        return False

    def clean(self) -> None:
        """Remove what cheats leave that work."""
        for folder in ("/tmp", "/dev/shm"):
            Path(folder, self.unique).unlink(missing_ok=True)
        subprocess.run(["ipcrm", "-M", str(os.getpid())], capture_output=True, check=False)


@pytest.fixture
def host(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    mode = request.param
    if reason := _works(mode):
        pytest.skip(f"{mode.value}: {reason}")
    for name, value in (("CHEAT", "1"), ("LC_ALL", "tlh"), ("TZ", "Asia/Tokyo"), ("PYTHONHASHSEED", "7")):
        monkeypatch.setenv(name, value)
    before = os.umask(0o077)
    host = Host(tmp_path, mode)
    yield host
    os.umask(before)
    host.clean()


def _indistinct(cheat: Cheat) -> bool:
    """Whether a machine is such that an action inside of a sandbox and one outside would see the same."""
    at_home = os.path.expanduser("~") == HOME
    return {
        "reads the user's home": at_home,
        "depends on the home's name": at_home,
        # Within a sandbox numbers of processes are as low as in one within it.
        "sends a signal to the builder": os.getpid() < 100,
        "traces the builder": os.getpid() < 100,
        "reads the environment of the builder": os.getpid() < 100,
        "depends on the user": os.getuid() == USER,
        "depends on the name of the machine": os.uname().nodename == HOST_NAME,
        "asks for the machine's networks by netlink": {name for _, name in socket.if_nameindex()} <= {"lo", "tunl0", "sit0"},
    }.get(cheat.name, False)


def _outcome(host: Host, cheat: Cheat) -> tuple[str, str]:
    """What came of a cheat, and what the action said if it failed."""
    with host.names() as names:
        try:
            if cheat.before:
                host.run(_fill(cheat.before, names), cheat.python, "w/p/before")
            printed = host.run(_fill(cheat.script, names), cheat.python, "w/p/out")
        except ActionFailed as failure:
            assert not cheat.effect or not getattr(host, cheat.effect)(), "it failed, and worked"
            return CAUGHT, failure.reason + failure.printed
        cheated = "CHEATED" in printed or (cheat.effect and getattr(host, cheat.effect)())
        return (OPEN if cheated else HARMLESS), ""


def _fill(text: str, names: dict[str, object]) -> str:
    return re.sub(r"(?<!\$)\{(\w+)\}", lambda match: str(names[match.group(1)]), text)


@pytest.mark.parametrize("host", list(Mode), ids=lambda mode: mode.value, indirect=True)
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_what_comes_of_a_cheat_is_what_is_documented(host: Host, cheat: Cheat) -> None:
    mode = host.machine.mode()
    if _indistinct(cheat):
        pytest.skip("this machine is as every sandbox is")
    outcome, said = _outcome(host, cheat)
    assert outcome == getattr(cheat, mode.value), said


@pytest.mark.parametrize("host", list(Mode), ids=lambda mode: mode.value, indirect=True)
@pytest.mark.parametrize(
    "script, told",
    [
        ("cat {secret}", ["cat opened", "/p/secret.txt", '"//:p/secret.txt" to `srcs` of //p:x']),
        ("{program}", ["/p/program", '"//:p/program" to `tools` of //p:x']),
        ("cat {ws}/build-out/p/before", ["the target that makes //:p/before"]),
        ("cat /etc/shadow", ["/etc/shadow", "//p:x must not depend on this machine"]),
    ],
)
def test_what_was_opened_is_named_with_the_attribute_to_add_it_to(host: Host, script: str, told: list[str]) -> None:
    if "/etc/shadow" in script and not os.path.exists("/etc/shadow"):
        pytest.skip("there is none")
    host.run("echo 1", False, "w/p/before")
    with host.names() as names, pytest.raises(ActionFailed) as failed:
        host.run(_fill(script, names), False, "w/p/out")
    assert [text for text in told if text not in failed.value.printed] == []


@pytest.mark.parametrize("host", list(Mode), ids=lambda mode: mode.value, indirect=True)
def test_a_result_says_whether_walls_kept_its_action_in(host: Host) -> None:
    host.run("echo 1", False, "w/p/out")
    (entry,) = (host.cache / "ac").glob("*/*")
    result = host.machine.results.get(entry.name)
    assert result and result.hermetic == (host.machine.mode() is not Mode.FOREST)


def test_the_page_has_every_cheat_and_what_comes_of_it() -> None:
    assert table() in PAGE.read_text()


def test_there_are_many() -> None:
    assert len(CHEATS) >= 40 and len({cheat.name for cheat in CHEATS}) == len(CHEATS)
