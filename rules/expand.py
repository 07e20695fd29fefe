"""`$(location …)` and `$`-variables in strings that become parts of commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from rules_executorch.builder.analysis.context import Dependency, RuleContext
from rules_executorch.builder.analysis.providers import RunInfo
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
    *,
    quote: Callable[[str], str] = str,
    paths: Callable[[Dependency], Sequence[str]] | None = None,
) -> str:
    """`text` with its references replaced; `$$` is a dollar sign.

    `variables` are by name without `$` and parentheses, ready for use. `$(location x)` is the path
    in the execution root of the one file of the target or file `x`, which must be among
    `dependencies`; `$(locations x)` are those of all its files, each through `quote`, with spaces
    between. `paths` says which those are, by default the program of what can be run, else all files.

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
            dependency = _named(ctx, attribute, match.group(), ctx.parse_label(argument.strip()), by_label)
            found = paths(dependency) if paths else default_paths(dependency)
            if len(found) != 1 and not function.endswith("s"):
                raise ctx.error(
                    f"{match.group()} in `{attribute}` of {ctx.label} stands for {len(found)} files, not one",
                    remedy=f"write $({function}s {argument})",
                )
            return " ".join(quote(path) for path in found)
        if name in variables:
            return variables[name]
        near = nearest(name, variables)
        raise ctx.error(
            f"{match.group()} in `{attribute}` of {ctx.label} means nothing",
            notes=(f"did you mean $({near})?",) if near else (),
            remedy="write $$ for a dollar sign that the command itself gets",
        )

    return _REFERENCE.sub(replace, text)


def _named(
    ctx: RuleContext, attribute: str, reference: str, label: Label, by_label: Mapping[Label, Dependency]
) -> Dependency:
    dependency = by_label.get(label)
    if dependency is None:
        raise ctx.error(
            f"{reference} in `{attribute}` of {ctx.label} names {label}, which it does not depend on",
            notes=[f"it depends on {', '.join(map(str, by_label)) or 'nothing'}"],
            remedy=f"add {label} to its `srcs`, `tools` or `data`",
        )
    return dependency


def default_paths(dependency: Dependency) -> list[str]:
    """The exec_paths that a label stands for: the program of what can be run, else all files."""
    run = dependency.find(RunInfo)
    if run is not None and run.executable is not None:
        return [run.executable.exec_path]
    return [artifact.exec_path for artifact in dependency.files]
