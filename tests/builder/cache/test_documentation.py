"""docs/caching.md says what is in a key, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from rules_executorch.builder.cache import eviction
from rules_executorch.builder.cache.keys import InputFile, key_parts
from rules_executorch.builder.core.action import Action, Artifact
from rules_executorch.builder.core.digest import digest_bytes

_TEXT = (Path(__file__).resolve().parents[3] / "docs/caching.md").read_text()


def test_the_table_has_all_parts_of_a_key() -> None:
    action = Action(
        "Genrule", "shell", ("a",), (Artifact("w/in", Path("/in")),), (Artifact("w/out"),), environment={"V": "1"}
    )
    parts = key_parts(action, {"w/in": InputFile(digest_bytes(b""))}, {"shell": "bash"})
    kinds = {path.partition(" ")[0] + (" …" if " " in path else "") for path, _ in parts}
    assert set(re.findall(r"^\| `([^`]*)` \|", _TEXT, re.MULTILINE)) == kinds


def test_the_limit_is_as_documented() -> None:
    assert f"{eviction._DEFAULT_SIZE >> 30} GiB or what `{eviction.SIZE_VARIABLE}` says" in _TEXT
