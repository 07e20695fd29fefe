"""The toolchains of this machine: which command each name stands for, and what identifies it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..core.action import Toolchain
from ..core.diagnostics import BuildError, Diagnostic
from ..core.digest import digest_file
from .distributions import closure, distribution_paths, installed, interpreter_paths
from .remembered import remembered

# Distributions that actions import or link: their versions are part of what a toolchain is.
_PYTHON_DISTRIBUTIONS = (
    "executorch",
    "flatbuffers",
    "numpy",
    "pytest",
    "safetensors",
    "torch",
    "torchao",
)

# What a toolchain's name begins with that is a distribution.
_OF_DISTRIBUTIONS = "python:"

_REMEDIES = {
    "cc": "install a C++ compiler (Debian: apt install g++; macOS: xcode-select --install) so that "
    "c++, g++ or clang++ is in PATH",
    "ar": "install binutils (Debian: apt install binutils) so that ar is in PATH",
    "shell": "install bash, so that it is in PATH",
    "executorch": "install the official runtime: pip install 'rules_executorch[host]'",
}


class Toolchains(Mapping[str, Toolchain]):
    """Toolchains by name, each looked for when it is first asked for: most builds need few of them.

    Those of distributions, `python:NAME`, are countless, and not among those that are listed. What distributions
    consist of is remembered in the folder `memory`, if there is one.
    """

    def __init__(self, memory: Path | None = None):
        self._memory = memory
        self._found: dict[str, Toolchain] = {}

    def __getitem__(self, name: str) -> Toolchain:
        if name not in self._found:
            if name not in self:
                raise KeyError(name)
            self._found[name] = _FINDERS[name]() if name in _FINDERS else self._of_distributions(name)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in _NAMES or name.startswith(_OF_DISTRIBUTIONS))

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def _of_distributions(self, name: str) -> Toolchain:
        file = self._memory / f"{name.replace(os.sep, '_')}.json" if self._memory else None
        found_from = [sys.version, sys.executable, sys.prefix, sys.base_prefix, _PYTHON_DISTRIBUTIONS]
        found_from += [os.stat(_launcher()).st_ctime_ns, installed(sys.path)]
        find = _python if name == "python" else lambda: _distribution(name)
        command, identity, visible = remembered(file, found_from, find)
        return Toolchain(name, tuple(command), identity, visible=tuple(visible))


def host_toolchains(memory: Path | None = None) -> Toolchains:
    """The toolchains of this machine by name.

    A tool that is missing is here all the same: it is an error only when an action needs it (see
    require). Neither torch nor executorch is imported: versions come from their metadata.
    """
    return Toolchains(memory)


def require(toolchain: Toolchain, owner: str) -> None:
    """Check that the tool is there, for an action of target `owner`.

    Raises:
        BuildError: it is not, with what to install.
    """
    if not (toolchain.command or toolchain.trees or toolchain.visible):
        raise BuildError(
            Diagnostic(
                f"{owner} needs the toolchain '{toolchain.name}', which was not found on this machine",
                remedy=_REMEDIES.get(toolchain.name) or _how_to_install(toolchain.name),
            )
        )


def _how_to_install(name: str) -> str | None:
    distribution = name.removeprefix(_OF_DISTRIBUTIONS)
    return None if distribution == name else f"install it where the builder is: {sys.executable} -m pip install {distribution}"


def _python() -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Its command, its identity, and what actions see of this machine for having it."""
    import platform

    versions = [f"{name} {_version(name) or 'absent'}" for name in _PYTHON_DISTRIBUTIONS]
    interpreter = f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()}"
    # Not -I: it would ignore PYTHONHASHSEED. The environment holds only what the sandbox puts there.
    command = (sys.executable, "-S", "-s", str(_launcher()), *_site_packages(), "--")
    identity = "\n".join([interpreter, *versions, f"launcher {digest_file(_launcher()).hash[:16]}"])
    return command, identity, (*interpreter_paths(), str(_launcher()), *distribution_paths(_PYTHON_DISTRIBUTIONS))


def _distribution(name: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """As _python, of a distribution with all that it requires: an addition to the toolchain `python`."""
    names = (name.removeprefix(_OF_DISTRIBUTIONS),)
    found = closure(names)
    return (), "\n".join(sorted(f"{each} {found[each].version}" for each in found)), distribution_paths(names)


def _executorch() -> Toolchain:
    trees = {name: folder for name in ("executorch", "torch") if (folder := _package_folder(name))}
    identity = f"executorch {_version('executorch')} torch {_version('torch')} {sysconfig.get_platform()}"
    return Toolchain("executorch", (), identity, trees if _version("executorch") else {})


def _program(name: str, candidates: tuple[str, ...], identify: Callable[[str], str]) -> Toolchain:
    for candidate in candidates:
        if path := shutil.which(candidate):
            return Toolchain(name, (path,), identify(path), visible=(str(Path(path).resolve().parents[1]),))
    return Toolchain(name, (), f"no {name}")


def _compiler_identity(path: str) -> str:
    return f"{_first_line_of_version(path)} {_output(path, '-dumpmachine').strip()}"


def _first_line_of_version(path: str) -> str:
    return _output(path, "--version").partition("\n")[0].strip()


def _output(*command: str) -> str:
    """What a command prints, or nothing if it fails: then the tool fails again where it is used, and is seen."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(distribution: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package_folder(name: str) -> Path | None:
    """The folder of an installed package, found without importing it."""
    for place in _site_packages():
        if (folder := Path(place, name)).is_dir():
            return folder
    return None


@functools.cache
def _site_packages() -> tuple[str, ...]:
    """The folders that the distributions are in: of a virtual environment, of a user, or of the system."""
    import importlib.metadata

    places = []
    for name in _PYTHON_DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            places.append(os.fspath(importlib.metadata.distribution(name).locate_file("")))
    return tuple(dict.fromkeys(os.path.abspath(place) for place in places))


def _launcher() -> Path:
    return Path(__file__).with_name("python_launcher.py")


# What machines have by other means than Python's distributions.
_FINDERS: dict[str, Callable[[], Toolchain]] = {
    "shell": lambda: _program("shell", ("bash",), lambda path: "bash"),
    "cc": lambda: _program("cc", ("c++", "g++", "clang++"), _compiler_identity),
    "ar": lambda: _program("ar", ("ar", "llvm-ar"), _first_line_of_version),
    "executorch": _executorch,
}
_NAMES = ("python", *_FINDERS)
