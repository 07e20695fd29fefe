"""Action keys: what can change an action's result, as one list that is both hashed and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.action import Action
from ..core.digest import Digest

# Part of every key: raise it when actions are run differently (other fixed variables, another layout).
EXECUTION_VERSION = "3"


@dataclass(frozen=True)
class InputFile:
    """An input as it is on disk now."""

    digest: Digest
    executable: bool = False

    def __str__(self) -> str:
        return f"{self.digest} executable" if self.executable else str(self.digest)


@dataclass(frozen=True)
class Change:
    """One difference between two walks; None where a side lacks the part."""

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.path} is new"
        if self.after is None:
            return f"{self.path} is gone"
        return f"{self.path} changed"


def key_parts(
    action: Action, inputs: Mapping[str, InputFile], toolchain_identities: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """All that can change the result of `action`, as (path, value) with every path once.

    `inputs` has the action's inputs by exec_path, `toolchain_identities` at least its toolchains by
    name. Mnemonic, owner and resources are left out: they change no byte of the outputs.
    """
    yield "execution", EXECUTION_VERSION
    names = ([action.toolchain] if action.toolchain else []) + [n for n in action.also if n != action.toolchain]
    yield "toolchains", " ".join(names)
    for name in names:
        yield f"toolchain {name}", toolchain_identities[name]
    for position, argument in enumerate(action.argv):
        yield f"argument {position}", argument
    for name, value in sorted(action.environment.items()):
        yield f"variable {name}", value
    for artifact in action.inputs:
        yield f"input {artifact.exec_path}", str(inputs[artifact.exec_path])
    for artifact in action.outputs:
        yield f"output {artifact.exec_path}", ""


def key_of_parts(parts: Sequence[tuple[str, str]]) -> str:
    """The key: 64 lower-case hex digits. Lengths stand before the texts, so that no two walks run together."""
    state = hashlib.sha256()
    for path, value in sorted(parts):
        for text in (path, value):
            data = text.encode("utf-8", "surrogateescape")
            state.update(b"%d:" % len(data))
            state.update(data)
    return state.hexdigest()


def explain(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> list[Change]:
    """What changed between two walks of key_parts: empty exactly when their keys are equal."""
    old, new = dict(before), dict(after)
    paths = list(new) + [path for path in old if path not in new]
    return [Change(p, old.get(p), new.get(p)) for p in paths if old.get(p) != new.get(p)]
