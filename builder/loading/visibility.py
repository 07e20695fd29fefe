"""Visibility: who may depend on a target."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.label import Label, LabelSyntaxError, parse_label

PUBLIC = "//visibility:public"
PRIVATE = "//visibility:private"


def parse_visibility(text: str, repo: str, package: str, main_repo: str) -> str:
    """A visibility, written in `package` of `repo`, as an absolute string.

    Raises:
        LabelSyntaxError: it is not one.
    """
    if text in (PUBLIC, PRIVATE):
        return text
    label = parse_label(text, repo=repo, package=package, main_repo=main_repo)
    if label.name not in ("__pkg__", "__subpackages__"):
        raise LabelSyntaxError(f"'{text}' is not a visibility")
    return str(label)


def is_visible(visibility: Sequence[str], owner: Label, user: Label) -> bool:
    """Whether `user` may depend on `owner`, which has this visibility."""
    if (owner.repo, owner.package) == (user.repo, user.package):
        return True
    return any(_admits(entry, user) for entry in visibility)


def _admits(entry: str, user: Label) -> bool:
    if entry in (PUBLIC, PRIVATE):
        return entry == PUBLIC
    allowed = parse_label(entry)
    if allowed.repo != user.repo:
        return False
    if user.package == allowed.package:
        return True
    below = not allowed.package or user.package.startswith(allowed.package + "/")
    return allowed.name == "__subpackages__" and below
