"""What targets of the families of rules offer to those that depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.analysis.providers import Provider
from rules_executorch.builder.core.action import Artifact
from rules_executorch.builder.core.label import Label


@dataclass(frozen=True)
class PyInfo(Provider):
    """Python code, with all that it depends on.

    `sources` are .py files, `data` what they read at run time. `imports` are the folders (of the
    execution root) that packages asked to be importable from, `repositories` the folders of the
    repositories that the sources are in. `requirements` are the distributions that the code imports,
    besides those that the toolchain `python` consists of.
    """

    sources: Depset[Artifact] = Depset()
    data: Depset[Artifact] = Depset()
    imports: Depset[str] = Depset()
    repositories: Depset[str] = Depset()
    requirements: Depset[str] = Depset()


@dataclass(frozen=True)
class Library:
    """What one cc_library adds to a link.

    `objects` are linked always, `archives` as far as something refers to them, or always, where
    `whole` says so. `toolchain_libraries` are shared libraries of the toolchains' trees, as paths
    (whose last part may have wildcards, for all that match) below `.toolchain/`. `kernels` are files that
    list the kernels that it registers.
    """

    label: str
    objects: tuple[Artifact, ...] = ()
    archives: tuple[Artifact, ...] = ()
    whole: bool = False
    linkopts: tuple[str, ...] = ()
    toolchain_libraries: tuple[str, ...] = ()
    kernels: tuple[Artifact, ...] = ()

    @property
    def files(self) -> tuple[Artifact, ...]:
        """All inputs of a link that it stands for."""
        return self.objects + self.archives


@dataclass(frozen=True)
class CcInfo(Provider):
    """C++ code, with all that it depends on.

    `includes` and `system_includes` are folders of the execution root to search for `headers`;
    of headers in the latter, the compiler tells no warnings.
    `toolchains` are those whose trees compiling and linking need. `programs` are ExecuTorch
    programs that it runs: what they need is linked as well. `kernel_libraries` are those that register further
    kernels, linked where such a program calls one of theirs.
    """

    headers: Depset[Artifact] = Depset()
    includes: Depset[str] = Depset()
    system_includes: Depset[str] = Depset()
    defines: Depset[str] = Depset()
    libraries: Depset[Library] = Depset()
    toolchains: Depset[str] = Depset()
    programs: Depset[LinkedProgram] = Depset()
    kernel_libraries: Depset[KernelLibrary] = Depset()


@dataclass(frozen=True)
class KernelLibrary:
    """A cc_library that registers kernels: its label, the files that list them, and its code with all it depends on."""

    label: str
    kernels: tuple[Artifact, ...]
    code: CcInfo


@dataclass(frozen=True)
class ExecutorchBackendInfo(Provider):
    """A device backend.

    `id` is the name of its device runtime, `module` registers its compiler when it is imported,
    `partitioner` is "module:Class". `runtime` is the C++ that carries it on the device, None where
    the target names none; `shared_library` the same as one file that registers itself when it
    is loaded into the official Python runtime.
    """

    label: Label
    id: str
    module: str
    partitioner: str | None
    python: PyInfo
    runtime: CcInfo | None
    shared_library: Artifact | None


@dataclass(frozen=True)
class ExecutorchModelInfo(Provider):
    """A lowered model.

    `program` is the .pte, `report` what it needs at run time (JSON). `factories` maps each method
    to the "module:factory" that makes its model, importable from `python`. `backends` are those
    that its methods name; `weights` is its checkpoint, None where the values are in the factory.
    """

    label: Label
    program: Artifact
    report: Artifact
    factories: Mapping[str, str]
    python: PyInfo
    weights: Artifact | None
    backends: tuple[ExecutorchBackendInfo, ...]


@dataclass(frozen=True)
class LinkedProgram:
    """An ExecuTorch program inside a binary, or beside it, as the link needs to know it."""

    label: str
    symbol: str
    report: Artifact
    backends: tuple[ExecutorchBackendInfo, ...]
