"""Python: py_library, py_binary, py_test."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from rules_executorch.builder.analysis.context import RuleContext
from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider, RunInfo
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Artifact, RunSpec
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import ARGS, DATA, PY_DEPS, REQUIREMENTS, TEST_ATTRIBUTES, timeout_seconds
from .expand import expand
from .files import files_of, runfiles_of
from .providers import PyInfo

_SOURCES = Attribute(AttributeType.LABEL_LIST, "Python modules.", (), allow_files=True, extensions=(".py",))
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_IMPORTS = Attribute(
    AttributeType.STRING_LIST,
    "Folders, relative to the package, from which the modules can be imported, besides the repository's root: "
    '["."] makes `models/dates.py` importable as `dates` and as `models.dates`.',
    default=(".",),
)


def merge_python(infos: Iterable[PyInfo]) -> PyInfo:
    """All of several providers' code as one."""
    infos = tuple(infos)
    return PyInfo(
        Depset((), (info.sources for info in infos)),
        Depset((), (info.data for info in infos)),
        Depset((), (info.imports for info in infos)),
        Depset((), (info.repositories for info in infos)),
        Depset((), (info.requirements for info in infos)),
    )


def python_files(info: PyInfo) -> list[Artifact]:
    """All that has to be in an execution root for the code to run there."""
    return [*info.sources.to_list(), *info.data.to_list()]


def import_roots(info: PyInfo) -> list[str]:
    """The folders of an execution root that go to sys.path: what packages ask for, repositories, the root."""
    return [*info.imports.to_list(), *info.repositories.to_list(), "."]


def python_argv(info: PyInfo, module: str, *arguments: str) -> tuple[str, ...]:
    """Arguments of the toolchain `python` that run `module`."""
    return (*(f"--import-root={root}" for root in dict.fromkeys(import_roots(info))), module, *arguments)


def required_toolchains(info: PyInfo) -> tuple[str, ...]:
    """What an action that runs the code names in `also`: the toolchain of each distribution that is required."""
    return tuple(f"python:{name}" for name in info.requirements.to_list())


def own_python(ctx: RuleContext) -> PyInfo:
    """What a target with `srcs`, `deps`, `data` and `imports` is, with its dependencies."""
    below = merge_python(dependency.provider(PyInfo) for dependency in ctx.attr.deps)
    folders = []
    for folder in ctx.attr.imports:
        path = posixpath.normpath(posixpath.join(ctx.package_path, folder))
        if folder.startswith("/") or not f"{path}/".startswith(f"{ctx.repository_path}/"):
            raise ctx.error(f"`imports` of {ctx.label} has {folder!r}, which is outside its repository")
        folders.append(path)
    for name in ctx.attr.requirements:
        if not _DISTRIBUTION.fullmatch(name):
            raise ctx.error(
                f"`requirements` of {ctx.label} has {name!r}, which is not the name of a distribution",
                remedy="write the name alone: its version is that which is installed where the builder is",
            )
    data = runfiles_of(ctx.attr.data, with_files=True)
    # The runfiles of dependencies are in their PyInfo's data already.
    return PyInfo(
        Depset(files_of(ctx.attr.srcs), [below.sources]),
        Depset((), [below.data, data]),
        Depset(folders, [below.imports]),
        Depset([ctx.repository_path], [below.repositories]),
        Depset(ctx.attr.requirements, [below.requirements]),
    )


def _default_info(ctx: RuleContext, python: PyInfo) -> DefaultInfo:
    return DefaultInfo(tuple(files_of(ctx.attr.srcs)), Depset((), [python.sources, python.data]))


def _arguments(ctx: RuleContext) -> tuple[str, ...]:
    return tuple(expand(ctx, text, "args", (*ctx.attr.data, *ctx.attr.srcs), {}) for text in ctx.attr.args)


def _library(ctx: RuleContext) -> Sequence[Provider]:
    python = own_python(ctx)
    return [_default_info(ctx, python), python]


def _binary(ctx: RuleContext) -> Sequence[Provider]:
    python = own_python(ctx)
    main = _main_file(ctx)
    # The package's own folder is always an import root of its programs, so that main is a module in it.
    python = dataclasses.replace(python, imports=Depset([ctx.package_path], [python.imports]))
    module = ".".join(PurePosixPath(main.exec_path).relative_to(ctx.package_path).with_suffix("").parts)
    spec = RunSpec(
        argv=python_argv(python, module, *_arguments(ctx)),
        runfiles=tuple(dict.fromkeys(python_files(python))),
        toolchain="python",
        also=required_toolchains(python),
    )
    return [_default_info(ctx, python), python, RunInfo(spec)]


def _main_file(ctx: RuleContext) -> Artifact:
    """The module that a program starts with: `main`, else the source named like the target, else the only one.

    Raises:
        BuildError: none of that is so.
    """
    if ctx.attr.main is not None:
        (main,) = ctx.attr.main.files
    else:
        sources = files_of(ctx.attr.srcs)
        named = [source for source in sources if source.exec_path == f"{ctx.package_path}/{ctx.label.name}.py"]
        candidates = named or sources
        if len(candidates) != 1:
            raise ctx.error(
                f"{ctx.label} does not say which of its {len(sources)} sources to run", remedy='add main = "….py"'
            )
        main = candidates[0]
    if main not in files_of(ctx.attr.srcs):
        raise ctx.error(f"`main` of {ctx.label} is not among its `srcs`", remedy="add it to `srcs`")
    if not main.exec_path.startswith(f"{ctx.package_path}/"):
        raise ctx.error(
            f"`main` of {ctx.label} is {main.exec_path}, which is in another package",
            remedy="define the target in the package of its main file",
        )
    return main


def _test(ctx: RuleContext) -> Sequence[Provider]:
    python = own_python(ctx)
    sources = [ctx.attr.main.files[0]] if ctx.attr.main is not None else _test_files(ctx)
    # Files count as tests whatever an enclosing project's configuration says, and nothing is
    # written beside them: an execution root holds runfiles, not a project.
    options = ("-q", "-c", "/dev/null", "--rootdir=.", "-p", "no:cacheprovider", "--import-mode=importlib")
    spec = RunSpec(
        argv=python_argv(python, "pytest", *options, *_arguments(ctx), *(source.exec_path for source in sources)),
        runfiles=tuple(dict.fromkeys(python_files(python))),
        toolchain="python",
        also=required_toolchains(python),
        timeout_seconds=timeout_seconds(ctx.attr.size, ctx.attr.timeout),
    )
    return [_default_info(ctx, python), python, RunInfo(spec)]


def _test_files(ctx: RuleContext) -> list[Artifact]:
    """The sources that pytest collects: `test_*.py`, `*_test.py`, or the only source.

    Raises:
        BuildError: there is none, so that the test would pass without testing anything.
    """
    sources = files_of(ctx.attr.srcs)
    tests = []
    for source in sources:
        stem = PurePosixPath(source.exec_path).stem
        if stem.startswith("test_") or stem.endswith("_test"):
            tests.append(source)
    if tests or len(sources) == 1:
        return tests or sources
    raise ctx.error(
        f"{ctx.label} has no test file",
        notes=("test files are named test_*.py or *_test.py",),
        remedy="name a source so, or say which it is: main = \"….py\"",
    )


_MAIN = Attribute(
    AttributeType.LABEL, "The source to run.", allow_files=True, extensions=(".py",)
)

PY_LIBRARY = Rule(
    RuleSchema(
        "py_library",
        "Python modules for others to import.",
        {"srcs": _SOURCES, "deps": PY_DEPS, "data": DATA, "imports": _IMPORTS, "requirements": REQUIREMENTS},
    ),
    _library,
)

PY_BINARY = Rule(
    RuleSchema(
        "py_binary",
        "A Python program, for `build run`. Its main module is `main`, else the source named like the target.",
        {
            "srcs": _SOURCES,
            "main": _MAIN,
            "deps": PY_DEPS,
            "data": DATA,
            "imports": _IMPORTS,
            "requirements": REQUIREMENTS,
            "args": ARGS,
        },
        is_executable=True,
    ),
    _binary,
)

PY_TEST = Rule(
    RuleSchema(
        "py_test",
        "Tests that pytest runs: `main`, else the sources named test_*.py or *_test.py. The tests see the files "
        "of `srcs`, `deps` and `data`, laid out by repository and package.",
        {
            "srcs": _SOURCES,
            "main": _MAIN,
            "deps": PY_DEPS,
            "data": DATA,
            "imports": _IMPORTS,
            "requirements": REQUIREMENTS,
            "args": ARGS,
            **TEST_ATTRIBUTES,
        },
        is_test=True,
        is_executable=True,
    ),
    _test,
)
