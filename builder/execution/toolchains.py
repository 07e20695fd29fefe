"""The toolchains of this machine: which command each name stands for, and what identifies it."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from ..core.action import Toolchain
from ..core.diagnostics import BuildError, Diagnostic
from .distributions import closure, distribution_paths, interpreter_paths

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


class Toolchains(dict[str, Toolchain]):
    """Toolchains by name. Those of distributions, `python:NAME`, are looked up when they are asked for."""

    def __missing__(self, name: str) -> Toolchain:
        if name not in self:
            raise KeyError(name)
        self[name] = _distribution(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name.startswith(_OF_DISTRIBUTIONS))


def host_toolchains() -> Toolchains:
    """The toolchains of this machine by name.

    A tool that is missing is here all the same: it is an error only when an action needs it (see
    require). Neither torch nor executorch is imported: versions come from their metadata.
    """
    toolchains = (
        _python(),
        _program("shell", ("bash",), lambda path: "bash"),
        _program("cc", ("c++", "g++", "clang++"), _compiler_identity),
        _program("ar", ("ar", "llvm-ar"), _first_line_of_version),
        _executorch(),
    )
    return Toolchains({toolchain.name: toolchain for toolchain in toolchains})


def require(toolchain: Toolchain, owner: str) -> None:
    """Check that the tool is there, for an action of target `owner`.

    Raises:
        BuildError: it is not, with what to install.
    """
    if not toolchain.command and not toolchain.trees and not visible_paths(toolchain):
        raise BuildError(
            Diagnostic(
                f"{owner} needs the toolchain '{toolchain.name}', which was not found on this machine",
                remedy=_REMEDIES.get(toolchain.name) or _how_to_install(toolchain.name),
            )
        )


def _how_to_install(name: str) -> str | None:
    distribution = name.removeprefix(_OF_DISTRIBUTIONS)
    return None if distribution == name else f"install it where the builder is: {sys.executable} -m pip install {distribution}"


def visible_paths(toolchain: Toolchain) -> tuple[str, ...]:
    """What an action sees of this machine for having the toolchain: files and folders outside of the system's own."""
    if toolchain.name == "python":
        return (*interpreter_paths(), str(_launcher()), *distribution_paths(_PYTHON_DISTRIBUTIONS))
    if toolchain.name.startswith(_OF_DISTRIBUTIONS):
        return distribution_paths((toolchain.name.removeprefix(_OF_DISTRIBUTIONS),))
    return tuple(str(Path(program).resolve().parents[1]) for program in toolchain.command[:1])


def _python() -> Toolchain:
    versions = [f"{name} {_version(name) or 'absent'}" for name in _PYTHON_DISTRIBUTIONS]
    interpreter = f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()}"
    # Not -I: it would ignore PYTHONHASHSEED. The environment holds only what the sandbox puts there.
    return Toolchain(
        "python",
        (sys.executable, "-S", "-s", str(_launcher()), *_site_packages(), "--"),
        "\n".join([interpreter, *versions, f"launcher {_launcher_hash()}"]),
    )


def _distribution(name: str) -> Toolchain:
    """A distribution with all that it requires, as an addition to the toolchain `python`."""
    found = closure((name.removeprefix(_OF_DISTRIBUTIONS),))
    return Toolchain(name, (), "\n".join(sorted(f"{each} {found[each].version}" for each in found)))


def _executorch() -> Toolchain:
    trees = {name: folder for name in ("executorch", "torch") if (folder := _package_folder(name))}
    identity = f"executorch {_version('executorch')} torch {_version('torch')} {sysconfig.get_platform()}"
    return Toolchain("executorch", (), identity, trees if _version("executorch") else {})


def _program(name: str, candidates: tuple[str, ...], identify) -> Toolchain:
    for candidate in candidates:
        if path := shutil.which(candidate):
            return Toolchain(name, (path,), identify(path))
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
    places = []
    for name in _PYTHON_DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            places.append(os.fspath(importlib.metadata.distribution(name).locate_file("")))
    return tuple(dict.fromkeys(os.path.abspath(place) for place in places))


@functools.cache
def _launcher_hash() -> str:
    from ..core.digest import digest_file

    return digest_file(_launcher()).hash[:16]


def _launcher() -> Path:
    return Path(__file__).with_name("python_launcher.py")
