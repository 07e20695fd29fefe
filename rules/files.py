"""Rules that name things and make nothing: filegroup, alias, config_setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rules_executorch.builder.analysis.context import Dependency, RuleContext
from rules_executorch.builder.analysis.depset import Depset
from rules_executorch.builder.analysis.providers import DefaultInfo, Provider
from rules_executorch.builder.analysis.rule import Rule
from rules_executorch.builder.core.action import Artifact
from rules_executorch.builder.core.rule import Attribute, AttributeType, RuleSchema

from .attributes import DATA


def files_of(dependencies: Iterable[Dependency]) -> list[Artifact]:
    """The files of all dependencies, each once."""
    return list(dict.fromkeys(artifact for dependency in dependencies for artifact in dependency.files))


def runfiles_of(dependencies: Iterable[Dependency], *, with_files: bool) -> Depset[Artifact]:
    """What the dependencies need at run time; `with_files`: and their files, as for `data`."""
    infos = [info for dependency in dependencies if (info := dependency.find(DefaultInfo))]
    direct = (artifact for info in infos for artifact in info.files) if with_files else ()
    return Depset(direct, (info.runfiles for info in infos))


def _filegroup(ctx: RuleContext) -> Sequence[Provider]:
    runfiles = (runfiles_of(ctx.attr.srcs, with_files=False), runfiles_of(ctx.attr.data, with_files=True))
    return [DefaultInfo(tuple(files_of(ctx.attr.srcs)), Depset((), runfiles))]


FILEGROUP = Rule(
    RuleSchema(
        "filegroup",
        "A name for files and for the outputs of targets.",
        {
            "srcs": Attribute(
                AttributeType.LABEL_LIST, "The files, and targets whose files are meant.", (), allow_files=True
            ),
            "data": DATA,
        },
    ),
    _filegroup,
)


def _alias(ctx: RuleContext) -> Sequence[Provider]:
    return list(ctx.attr.actual.providers.values())


ALIAS = Rule(
    RuleSchema(
        "alias",
        "Another name for a target or file.",
        {
            "actual": Attribute(
                AttributeType.LABEL, "What it stands for.", mandatory=True, allow_files=True, configurable=True
            )
        },
    ),
    _alias,
)


def _config_setting(ctx: RuleContext) -> Sequence[Provider]:
    return [DefaultInfo()]


CONFIG_SETTING = Rule(
    RuleSchema(
        "config_setting",
        "A condition for select(): true when the build has the option that `values` gives.",
        {
            "values": Attribute(
                AttributeType.STRING_DICT,
                'What must hold, for example {"config": "release"}, which `--config release` makes true.',
                mandatory=True,
                configurable=False,
            )
        },
    ),
    _config_setting,
)
