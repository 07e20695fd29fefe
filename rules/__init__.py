"""The rules of the build language: what BUILD files may write, and what it does.

`defs.bzl` is what BUILD files load; the rules in `RULES` are known without loading.
"""

from __future__ import annotations

from collections.abc import Mapping

from rules_executorch.builder.analysis.rule import Rule

from .app import EXECUTORCH_CC_LIBRARY
from .backend import EXECUTORCH_BACKEND
from .cc import CC_BINARY, CC_LIBRARY, CC_TEST
from .files import ALIAS, CONFIG_SETTING, FILEGROUP
from .genrule import GENRULE
from .model import EXECUTORCH_MODEL
from .model_test import EXECUTORCH_TEST
from .python import PY_BINARY, PY_LIBRARY, PY_TEST

RULES: Mapping[str, Rule] = {
    rule.schema.name: rule
    for rule in (
        ALIAS,
        CC_BINARY,
        CC_LIBRARY,
        CC_TEST,
        CONFIG_SETTING,
        EXECUTORCH_BACKEND,
        EXECUTORCH_CC_LIBRARY,
        EXECUTORCH_MODEL,
        EXECUTORCH_TEST,
        FILEGROUP,
        GENRULE,
        PY_BINARY,
        PY_LIBRARY,
        PY_TEST,
    )
}
