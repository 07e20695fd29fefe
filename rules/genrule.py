"""genrule: outputs made by a shell command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rules_executorch.builder.analysis.context import Dependency, RuleContext
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider, RunInfo
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.label import Label
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import TOOLS
from .expand import default_paths, expand
from .files import files_of, runfiles_of
from .providers import PyInfo
from .python import python_argv, python_files


def _genrule(ctx: RuleContext) -> Sequence[Provider]:
    if not ctx.attr.outs:
        raise ctx.error(f"{ctx.label} makes nothing", remedy='name the files that `cmd` makes: outs = ["…"]')
    outputs = tuple(ctx.declare_output(name) for name in ctx.attr.outs)
    sources = files_of(ctx.attr.srcs)
    dependencies = (*ctx.attr.srcs, *ctx.attr.tools)
    output_paths = [shlex.quote(output.exec_path) for output in outputs]
    source_paths = [shlex.quote(source.exec_path) for source in sources]
    # With one output, the folder that it is in; with several, the package's, as in Bazel.
    folder = str(PurePosixPath(outputs[0].exec_path).parent) if len(outputs) == 1 else ctx.package_path
    variables = {"SRCS": " ".join(source_paths), "OUTS": " ".join(output_paths), "@D": shlex.quote(folder)}
    variables["RULEDIR"] = shlex.quote(ctx.package_path)
    if len(outputs) == 1:
        variables["@"] = output_paths[0]
    if len(sources) == 1:
        variables["<"] = source_paths[0]
    programs = _python_programs(ctx)

    def paths(dependency: Dependency) -> Sequence[str]:
        program = programs.get(dependency.label)
        return default_paths(dependency) if program is None else [program.path]

    command = expand(ctx, ctx.attr.cmd, "cmd", dependencies, variables, quote=shlex.quote, paths=paths)
    script = "set -euo pipefail\n" + command
    inputs = [*sources, *files_of(ctx.attr.tools), *runfiles_of(ctx.attr.tools, with_files=False).to_list()]
    if programs:
        tools = ctx.attr._tools.provider(PyInfo)
        launched = json.dumps({program.path: program.argv for program in programs.values()})
        toolchain = "python"
        argv = python_argv(tools, "rules_executorch.rules.tools.run_with_programs", launched, script)
        inputs += python_files(tools)
    else:
        toolchain, argv = "shell", ("-c", script)
    runs = (tool.find(RunInfo) for tool in ctx.attr.tools)
    also = [*ctx.attr.toolchains, *(name for run in runs if run is not None for name in run.spec.also)]
    ctx.run("Genrule", toolchain=toolchain, argv=argv, inputs=inputs, outputs=outputs, also=also)
    return [DefaultInfo(outputs)]


@dataclass(frozen=True)
class _PythonProgram:
    """A tool that the toolchain `python` runs: the path at which the command finds it, and its arguments there."""

    path: str
    argv: tuple[str, ...]


def _python_programs(ctx: RuleContext) -> dict[Label, _PythonProgram]:
    """The tools that are Python programs. They have no file of their own: the action makes one for each."""
    programs = {}
    for number, tool in enumerate(ctx.attr.tools):
        run = tool.find(RunInfo)
        if run is not None and run.executable is None and run.spec.toolchain == "python":
            programs[tool.label] = _PythonProgram(f".programs/{number}/{tool.label.name}", run.spec.argv)
    return programs


GENRULE = Rule(
    RuleSchema(
        "genrule",
        "Files made by a command of bash's, which sees its declared inputs and nothing else.",
        {
            "srcs": Attribute(
                AttributeType.LABEL_LIST, "Files and targets that the command reads.", (), allow_files=True
            ),
            "outs": Attribute(
                AttributeType.OUTPUT_LIST,
                "The files that it makes, relative to the package. Other targets can name each by its label.",
                mandatory=True,
            ),
            "cmd": Attribute(
                AttributeType.STRING,
                "The command. `$(location x)` and `$(locations x)` are paths of a file or target in `srcs` or "
                "`tools`; `$(SRCS)` and `$(OUTS)` all sources and outputs; `$<` and `$@` the only source and "
                "output; `$(@D)` the folder of the only output, or the package's; `$(RULEDIR)` the package's; "
                "`$$` a dollar sign. The command stops at the first failure (set -euo pipefail).",
                mandatory=True,
            ),
            "tools": Attribute(
                AttributeType.LABEL_LIST,
                "Programs (cc_binary, py_binary) and files that the command uses.",
                (),
                allow_files=True,
            ),
            "toolchains": Attribute(
                AttributeType.STRING_LIST,
                "Toolchains whose folders the command sees at `.toolchain/<tree>/`.",
                default=(),
            ),
            "_tools": TOOLS,
        },
    ),
    _genrule,
)
