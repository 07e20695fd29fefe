"""C++: cc_library, cc_binary, cc_test."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from rules_executorch.builder.analysis.context import Dependency, RuleContext
from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider, RunInfo
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Artifact, Resources, RunSpec
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import ARGS, CC_DEPS, DATA, TEST_ATTRIBUTES, TOOLS, timeout_seconds
from .expand import expand
from .files import files_of, runfiles_of
from .linking import link_program, linked_toolchains
from .providers import CcInfo, KernelLibrary, Library

_C_SOURCES = (".c",)
_CPP_SOURCES = (".cc", ".cpp", ".cxx")
_ASSEMBLY_SOURCES = (".S", ".s")
_COMPILED = _C_SOURCES + _CPP_SOURCES + _ASSEMBLY_SOURCES
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
_ARCHIVES = (".a",)

# Nothing of the machine or of the folder enters an object file: debuggers get a compilation folder
# that is where they stand.
_REPRODUCIBLE = ("-ffile-prefix-map=/proc/self/cwd=.",)
_COMPILE_ENVIRONMENT = {"PWD": "/proc/self/cwd"}


def merge_cc(infos: Iterable[CcInfo]) -> CcInfo:
    """All of several providers' code as one."""
    infos = tuple(infos)
    return CcInfo(
        headers=Depset((), (info.headers for info in infos)),
        includes=Depset((), (info.includes for info in infos)),
        system_includes=Depset((), (info.system_includes for info in infos)),
        defines=Depset((), (info.defines for info in infos)),
        libraries=Depset((), (info.libraries for info in infos)),
        toolchains=Depset((), (info.toolchains for info in infos)),
        programs=Depset((), (info.programs for info in infos)),
        kernel_libraries=Depset((), (info.kernel_libraries for info in infos)),
    )


def compile_sources(
    ctx: RuleContext, sources: Iterable[Artifact], info: CcInfo, copts: Sequence[str]
) -> list[Artifact]:
    """Declare one action for each source file; the object files.

    Every source sees all headers of `info`, and no other source: a change in one compiles that one.
    """
    flags = [
        *(f"-I{folder}" for folder in info.includes.to_list()),
        *(f"-isystem{folder}" for folder in info.system_includes.to_list()),
        *(f"-D{define}" for define in info.defines.to_list()),
    ]
    headers = info.headers.to_list()
    toolchains = info.toolchains.to_list()
    objects = []
    for source in sources:
        suffix = PurePosixPath(source.exec_path).suffix
        language = ["-xc", "-std=c17"] if suffix in _C_SOURCES else []
        language = ["-std=c++20"] if suffix in _CPP_SOURCES else language
        # Sources of one name in two folders, or with two suffixes, keep objects of their own.
        output = ctx.declare_output(f"{ctx.label.name}.objects/{_path_in_package(ctx, source)}.o")
        ctx.run(
            "CppCompile",
            toolchain="cc",
            argv=[
                *language, "-O2", "-fPIC", *_REPRODUCIBLE, *flags, *copts,
                "-c", source.exec_path, "-o", output.exec_path,
            ],  # fmt: skip
            inputs=(source, *headers),
            outputs=(output,),
            environment=_COMPILE_ENVIRONMENT,
            also=toolchains,
            resources=Resources(memory_mib=1024),
        )
        objects.append(output)
    return objects


def _path_in_package(ctx: RuleContext, source: Artifact) -> str:
    """The source's path below the package, or, for one of another package, below the execution root."""
    prefix = f"{ctx.package_path}/"
    return source.exec_path[len(prefix) :] if source.exec_path.startswith(prefix) else source.exec_path


def _own_info(ctx: RuleContext) -> tuple[CcInfo, list[Artifact]]:
    """What compiling the target's sources needs, without private headers, and those headers.

    Raises:
        BuildError: an include folder outside the repository.
    """
    attr = ctx.attr
    below = merge_cc(dependency.provider(CcInfo) for dependency in attr.deps)
    includes = [ctx.repository_path]
    for folder in attr.includes:
        path = posixpath.normpath(posixpath.join(ctx.package_path, folder))
        if folder.startswith("/") or not f"{path}/".startswith(f"{ctx.repository_path}/"):
            raise ctx.error(f"`includes` of {ctx.label} has {folder!r}, which is outside its repository")
        includes.append(path)
    info = CcInfo(
        headers=Depset(files_of(getattr(attr, "hdrs", ())), [below.headers]),
        includes=Depset(includes, [below.includes]),
        system_includes=Depset((f".toolchain/{path}" for path in attr.toolchain_includes), [below.system_includes]),
        defines=Depset(attr.defines, [below.defines]),
        libraries=below.libraries,
        toolchains=Depset(attr.toolchains, [below.toolchains]),
        programs=below.programs,
        kernel_libraries=below.kernel_libraries,
    )
    return info, [file for file in files_of(attr.srcs) if file.exec_path.endswith(_HEADERS)]


def _compile_own(ctx: RuleContext) -> tuple[CcInfo, list[Artifact], list[Artifact]]:
    """Compile the target's sources: what it offers apart from libraries, its objects, its prebuilt archives."""
    info, private_headers = _own_info(ctx)
    sources = files_of(ctx.attr.srcs)
    seen = dataclasses.replace(info, headers=Depset(private_headers, [info.headers]))
    compiled = [file for file in sources if file.exec_path.endswith(_COMPILED)]
    for file in sources:
        if not file.exec_path.endswith(_COMPILED + _HEADERS + _ARCHIVES):
            raise ctx.error(
                f"`srcs` of {ctx.label} has {file.exec_path}, which is no source, header or archive",
                notes=(f"known endings: {' '.join(_COMPILED + _HEADERS + _ARCHIVES)}",),
            )
    objects = compile_sources(ctx, compiled, seen, ctx.attr.copts)
    return info, objects, [file for file in sources if file.exec_path.endswith(_ARCHIVES)]


def _library(ctx: RuleContext) -> Sequence[Provider]:
    info, objects, archives = _compile_own(ctx)
    files = tuple(archives)
    if objects:
        archive = ctx.declare_output(f"lib{ctx.label.name}.a")
        ctx.run(
            "CppArchive",
            toolchain="ar",
            argv=("rcsD", archive.exec_path, *(each.exec_path for each in objects)),
            inputs=objects,
            outputs=(archive,),
        )
        files = (archive, *archives)
    library = Library(
        label=ctx.full_name(ctx.label),
        objects=tuple(objects) if ctx.attr.alwayslink else (),
        archives=tuple(archives) if ctx.attr.alwayslink else files,
        whole=ctx.attr.alwayslink,
        linkopts=tuple(ctx.attr.linkopts),
        toolchain_libraries=tuple(ctx.attr.toolchain_libraries),
        kernels=tuple(files_of(ctx.attr.kernels)),
    )
    further = [_kernel_library(ctx, each) for each in ctx.attr.kernel_libraries]
    info = dataclasses.replace(
        info,
        libraries=Depset([library], [info.libraries]),
        kernel_libraries=Depset(further, [info.kernel_libraries]),
    )
    return [DefaultInfo(files, _runfiles(ctx)), info]


def _kernel_library(ctx: RuleContext, dependency: Dependency) -> KernelLibrary:
    info = dependency.provider(CcInfo)
    kernels = tuple(file for library in info.libraries.to_list() for file in library.kernels)
    if not kernels:
        raise ctx.error(
            f"`kernel_libraries` of {ctx.label} names {dependency.label}, which does not say what kernels it registers",
            remedy="give it the attribute `kernels`: a file with their names",
        )
    return KernelLibrary(ctx.full_name(dependency.label), kernels, info)


def _runfiles(ctx: RuleContext) -> Depset[Artifact]:
    return Depset(
        (), (runfiles_of(ctx.attr.data, with_files=True), runfiles_of(ctx.attr.deps, with_files=False))
    )


def _program(ctx: RuleContext, seconds: int) -> Sequence[Provider]:
    info, objects, archives = _compile_own(ctx)
    own = Library(
        label=ctx.full_name(ctx.label),
        objects=tuple(objects),
        archives=tuple(archives),
        linkopts=tuple(ctx.attr.linkopts),
        toolchain_libraries=tuple(ctx.attr.toolchain_libraries),
    )
    program = ctx.declare_output(ctx.label.name)
    link_program(ctx, program, own, info)
    runfiles = _runfiles(ctx)
    spec = RunSpec(
        argv=(program.exec_path, *(expand(ctx, text, "args", ctx.attr.data, {}) for text in ctx.attr.args)),
        runfiles=tuple(dict.fromkeys((program, *runfiles.to_list()))),
        also=linked_toolchains(info),
        timeout_seconds=seconds,
    )
    return [DefaultInfo((program,), runfiles), RunInfo(spec, executable=program)]


def _binary(ctx: RuleContext) -> Sequence[Provider]:
    return _program(ctx, timeout_seconds("enormous", None))


def _test(ctx: RuleContext) -> Sequence[Provider]:
    return _program(ctx, timeout_seconds(ctx.attr.size, ctx.attr.timeout))


_COMMON = {
    "srcs": Attribute(
        AttributeType.LABEL_LIST,
        "C++ (.cc, .cpp, .cxx), C (.c) and assembler (.S) sources, private headers, and prebuilt archives (.a).",
        (),
        allow_files=True,
        extensions=_COMPILED + _HEADERS + _ARCHIVES,
    ),
    "deps": CC_DEPS,
    "includes": Attribute(
        AttributeType.STRING_LIST,
        "Folders, relative to the package, in which headers are found by this target and "
        "those that depend on it. The root of the repository always is one.",
        default=(),
    ),
    "defines": Attribute(
        AttributeType.STRING_LIST,
        "Preprocessor definitions, `NAME` or `NAME=value`, for this target and those that depend on it.",
        default=(),
    ),
    "copts": Attribute(
        AttributeType.STRING_LIST, "Options for compiling this target's sources, after the usual ones.", default=()
    ),
    "linkopts": Attribute(
        AttributeType.STRING_LIST,
        "Linker options, for every program that this is linked into.",
        default=(),
    ),
    "data": DATA,
    "toolchains": Attribute(
        AttributeType.STRING_LIST,
        "Toolchains whose trees (at `.toolchain/<tree>/`) this target, and those that depend on it, compile, link and "
        "run with. `executorch` is the official device runtime on this machine.",
        default=(),
    ),
    "toolchain_includes": Attribute(
        AttributeType.STRING_LIST,
        "Folders below `.toolchain/` in which headers are found by this target and those that depend on it.",
        default=(),
    ),
    "toolchain_libraries": Attribute(
        AttributeType.STRING_LIST,
        "Shared libraries below `.toolchain/` that programs are linked with. If the last part of a path has "
        "wildcards, all files that match it are meant, if any.",
        default=(),
    ),
}

_LIBRARY_ATTRIBUTES = {
    **_COMMON,
    "hdrs": Attribute(
        AttributeType.LABEL_LIST,
        "Headers that those who depend on this may include.",
        (),
        allow_files=True,
        extensions=_HEADERS,
    ),
    "alwayslink": Attribute(
        AttributeType.BOOL,
        "Link all of it into every program, whether or not something refers to it: for code that registers "
        "itself when the program starts, such as backends and kernels.",
        default=False,
    ),
    "kernels": Attribute(
        AttributeType.LABEL_LIST,
        "Files that list the ExecuTorch kernels that this registers, one name a line, as in `aten::add.out`. If any "
        "library of a program says so, then a kernel that the binary's ExecuTorch program calls, and that none of "
        "them has, is an error of the link.",
        (),
        allow_files=True,
    ),
    "kernel_libraries": Attribute(
        AttributeType.LABEL_LIST,
        "Of a runtime: cc_library targets with `kernels` that are linked besides, each where an ExecuTorch "
        "program calls one of its kernels.",
        (),
    ),
}

CC_LIBRARY = Rule(
    RuleSchema("cc_library", "C++ code for others to include and link.", _LIBRARY_ATTRIBUTES), _library
)

CC_BINARY = Rule(
    RuleSchema(
        "cc_binary",
        "A C++ program, with all that it depends on linked in, and all that its ExecuTorch programs need "
        "(executorch_cc_library).",
        {**_COMMON, "args": ARGS, "_tools": TOOLS},
        is_executable=True,
    ),
    _binary,
)

CC_TEST = Rule(
    RuleSchema(
        "cc_test",
        "A C++ program that passes by exiting with status 0.",
        {**_COMMON, "args": ARGS, **TEST_ATTRIBUTES, "_tools": TOOLS},
        is_test=True,
        is_executable=True,
    ),
    _test,
)
