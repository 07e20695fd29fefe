"""Linking: the libraries of a program in the linker's order, and the programs and shared libraries made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.core.action import Artifact, Resources

from .providers import CcInfo, ExecutorchBackendInfo, Library, LinkedProgram, PyInfo
from .python import python_argv, python_files


def in_link_order(libraries: Depset[Library]) -> list[Library]:
    """Each library before those that it depends on, as linkers that read archives once need it."""
    return libraries.to_list()[::-1]


def link_program(ctx: RuleContext, program: Artifact, own: Library, info: CcInfo) -> None:
    """Declare the action that links `own`, the target's code, and all that `info` has into `program`.

    What ExecuTorch programs need is known only when they are built, and the names of
    toolchains' libraries only on the machine that links. So an action before reads the programs'
    reports, checks that all is there, and hands the linker the arguments for it.
    """
    libraries = in_link_order(info.libraries)
    programs = info.programs.to_list()
    inputs = [*own.files]
    arguments = ["-o", program.exec_path, *_arguments(own)]
    if programs or any(library.toolchain_libraries for library in (own, *libraries)):
        _check_symbols(ctx, programs)
        candidates = _candidates(info, libraries)
        answer = _check_link(ctx, program, info, [own, *libraries], candidates)
        inputs += [answer, *(file for library in candidates for file in library.files)]
        arguments.append(f"@{answer.exec_path}")
    for library in libraries:
        inputs += library.files
        arguments += _arguments(library)
    ctx.run(
        "CppLink",
        toolchain="cc",
        argv=arguments,
        inputs=inputs,
        outputs=(program,),
        also=linked_toolchains(info),
        resources=Resources(memory_mib=1024),
    )


def link_shared(ctx: RuleContext, output: Artifact, info: CcInfo) -> None:
    """Declare the action that links all that `info` has into a shared library.

    Libraries of toolchains are left out, and their symbols stay open: the process that loads it has them.
    """
    libraries = in_link_order(info.libraries)
    ctx.run(
        "CppLinkShared",
        toolchain="cc",
        argv=["-shared", "-o", output.exec_path, *(arg for library in libraries for arg in _arguments(library))],
        inputs=[file for library in libraries for file in library.files],
        outputs=(output,),
        also=info.toolchains.to_list(),
        resources=Resources(memory_mib=1024),
    )


def _arguments(library: Library) -> list[str]:
    """The linker arguments that add `library`, without libraries of toolchains."""
    archives = [archive.exec_path for archive in library.archives]
    if archives and library.whole:
        archives = ["-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive"]
    return [*(each.exec_path for each in library.objects), *archives, *library.linkopts]


def linked_toolchains(info: CcInfo) -> tuple[str, ...]:
    """The toolchains whose trees a program made of `info` needs, when it is linked and when it runs."""
    return tuple(dict.fromkeys(name for each in (info, *_optional(info)) for name in each.toolchains.to_list()))


def _optional(info: CcInfo) -> list[CcInfo]:
    """What is linked only where an ExecuTorch program needs it: runtimes of backends, libraries of kernels."""
    programs = info.programs.to_list()
    runtimes = [backend.runtime for backend in _backends(programs) if backend.runtime is not None]
    return runtimes + ([each.code for each in info.kernel_libraries.to_list()] if programs else [])


def _backends(programs: Iterable[LinkedProgram]) -> list[ExecutorchBackendInfo]:
    """The backends that programs name, each once."""
    return list({backend.label: backend for program in programs for backend in program.backends}.values())


def _candidates(info: CcInfo, linked: Sequence[Library]) -> list[Library]:
    """The libraries that ExecuTorch programs may need, in link order, without those that are linked anyway."""
    every = in_link_order(Depset((), (each.libraries for each in _optional(info))))
    known = set(linked)
    return [library for library in every if library not in known]


def _check_symbols(ctx: RuleContext, programs: Sequence[LinkedProgram]) -> None:
    """Raise BuildError where two ExecuTorch programs have one name, which neither C++ nor the linker could tell apart."""
    by_symbol: dict[str, LinkedProgram] = {}
    for program in programs:
        other = by_symbol.setdefault(program.symbol, program)
        if other != program:
            raise ctx.error(
                f"{ctx.label} has two programs named `{program.symbol}`: {other.label} and {program.label}",
                remedy="rename one of these executorch_cc_library targets",
            )


def _check_link(
    ctx: RuleContext,
    program: Artifact,
    info: CcInfo,
    linked: Sequence[Library],
    candidates: Sequence[Library],
) -> Artifact:
    """Declare the action that makes the linker's arguments for delegates, kernels and libraries of toolchains."""
    programs, kernel_libraries = info.programs.to_list(), info.kernel_libraries.to_list()
    question = {
        "program": program.exec_path,
        "toolchain_libraries": [path for library in linked for path in library.toolchain_libraries],
        "kernels": [_kernels(library) for library in linked if library.kernels],
        "models": [{"label": each.label, "report": each.report.exec_path} for each in programs],
        "backends": [
            {
                "label": ctx.full_name(backend.label),
                "id": backend.id,
                "libraries": sorted(library.label for library in backend.runtime.libraries.to_list())
                if backend.runtime is not None
                else None,
            }
            for backend in _backends(programs)
        ],
        "kernel_libraries": [
            {
                "label": each.label,
                "kernels": [file.exec_path for file in each.kernels],
                "libraries": sorted(library.label for library in each.code.libraries.to_list()),
            }
            for each in kernel_libraries
        ],
        "libraries": [
            {
                **_kernels(library),
                "arguments": _arguments(library),
                "toolchain_libraries": library.toolchain_libraries,
            }
            for library in candidates
        ],
    }
    name = PurePosixPath(program.exec_path).name
    question_file = ctx.write(f"{name}.link.json", json.dumps(question, indent=1, sort_keys=True) + "\n")
    answer = ctx.declare_output(f"{name}.link.rsp")
    tools = ctx.attr._tools.provider(PyInfo)
    lists = [file for library in (*linked, *candidates) for file in library.kernels]
    ctx.run(
        "CheckLink",
        toolchain="python",
        argv=python_argv(tools, "rules_executorch.rules.tools.check_link", question_file.exec_path, answer.exec_path),
        inputs=tuple(dict.fromkeys((question_file, *(each.report for each in programs), *lists, *python_files(tools)))),
        outputs=(answer,),
        also=linked_toolchains(info),
    )
    return answer


def _kernels(library: Library) -> dict[str, Any]:
    return {"label": library.label, "kernels": [file.exec_path for file in library.kernels]}
