"""`$(location …)` and `$`-variables in strings that become parts of commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from rules_executorch.builder.analysis.context import Dependency, RuleContext
from rules_executorch.builder.analysis.providers import RunInfo
from rules_executorch.builder.core.action import Artifact
from rules_executorch.builder.core.diagnostics import nearest
from rules_executorch.builder.core.label import Label

# `$$`, `$(anything)`, or `$` with the word or character after it (none at the end of the text).
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\)|(\w+|.?))", re.DOTALL)


def expand(
    ctx: RuleContext,
    text: str,
    attribute: str,
    dependencies: Iterable[Dependency],
    variables: Mapping[str, str],
    quote: Callable[[str], str] = str,
) -> str:
    """`text` with its references replaced; `$$` is a dollar sign.

    `variables` are by name without `$` and parentheses, ready for use. `$(location x)` is the path
    in the execution root of the one file of the target or file `x`, which must be among
    `dependencies`; `$(locations x)` are those of all its files, each through `quote`, with spaces between.

    Raises:
        BuildError: a reference to something unknown; `attribute` is the place it stands in.
    """
    by_label = {dependency.label: dependency for dependency in dependencies}

    def replace(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        name = match.group(1) if match.group(1) is not None else match.group(2)
        function, _, argument = name.partition(" ")
        if function in ("location", "locations", "execpath", "execpaths") and argument:
            paths = _locations(ctx, attribute, match.group(), ctx.parse_label(argument.strip()), by_label)
            if len(paths) != 1 and not function.endswith("s"):
                raise ctx.error(
                    f"{match.group()} in `{attribute}` of {ctx.label} stands for {len(paths)} files, not one",
                    remedy=f"write $({function}s {argument})",
                )
            return " ".join(quote(path) for path in paths)
        if name in variables:
            return variables[name]
        near = nearest(name, variables)
        raise ctx.error(
            f"{match.group()} in `{attribute}` of {ctx.label} means nothing",
            notes=(f"did you mean $({near})?",) if near else (),
            remedy="write $$ for a dollar sign that the command itself gets",
        )

    return _REFERENCE.sub(replace, text)


def _locations(
    ctx: RuleContext, attribute: str, reference: str, label: Label, by_label: Mapping[Label, Dependency]
) -> list[str]:
    dependency = by_label.get(label)
    if dependency is None:
        raise ctx.error(
            f"{reference} in `{attribute}` of {ctx.label} names {label}, which it does not depend on",
            notes=[f"it depends on {', '.join(map(str, by_label)) or 'nothing'}"],
            remedy=f"add {label} to its `srcs`, `tools` or `data`",
        )
    return [artifact.exec_path for artifact in tool_files(dependency)]


def tool_files(dependency: Dependency) -> tuple[Artifact, ...]:
    """The files that a label stands for in a command: the program of what can be run, else all files."""
    run = dependency.find(RunInfo)
    if run is not None and run.executable is not None:
        return (run.executable,)
    return dependency.files
