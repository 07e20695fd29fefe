"""A rule: what it looks like in a BUILD file, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.rule import RuleSchema
from .context import RuleContext
from .providers import Provider


@dataclass(frozen=True)
class Rule:
    """A rule of the build language.

    `implementation` is called once per target. It declares outputs and actions through its
    context, reads no file, and returns the target's providers. It raises only what
    `RuleContext.error` makes.
    """

    schema: RuleSchema
    implementation: Callable[[RuleContext], Sequence[Provider]]
