"""What every target can say of itself to those that depend on it; families of rules add their own."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.action import Artifact, RunSpec
from .depset import Depset


class Provider:
    """Base of all providers: a frozen dataclass of what a target offers. A target has one of each type at most."""


@dataclass(frozen=True)
class DefaultInfo(Provider):
    """What building the target gives.

    `files` are built when the target is asked for, and are what a label stands for in the `srcs`
    or `data` of another target. `runfiles` are what the target, and all that uses it, needs at
    run time besides `files`.
    """

    files: tuple[Artifact, ...] = ()
    runfiles: Depset[Artifact] = Depset()


@dataclass(frozen=True)
class RunInfo(Provider):
    """How the target is run (`build run`) or tested (`build test`).

    `executable` is the program itself where it is one file, for those that name it with $(location).
    """

    spec: RunSpec
    executable: Artifact | None = None
