"""docs/command_line.md says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rules_executorch.builder.commands import buildrc, exit_codes
from rules_executorch.builder.commands.verbs import parser_of
from rules_executorch.builder.commands.words import VERBS

TEXT = (Path(__file__).parents[3] / "docs/command_line.md").read_text()


def test_every_exit_code_is_in_the_table() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    assert {int(code): name for code, name in rows} == exit_codes.NAMES
    in_help = parser_of("build").format_help()
    assert all(re.search(rf"(?<!\d) {code}  \w", in_help) for code in exit_codes.NAMES)


def test_every_option_that_it_names_exists() -> None:
    known = {name for verb in VERBS for action in parser_of(verb).options for name in action.option_strings}
    named = set(re.findall(r"(?<![\w-])--[a-z_]+", TEXT))
    assert named - known == set()


@pytest.mark.parametrize("verb", VERBS)
def test_sections_of_rc_files_are_those_of_verbs_with_options(verb: str) -> None:
    assert (verb in buildrc.INHERITS) == bool(parser_of(verb).options)


def test_every_event_and_category_is_in_a_table() -> None:
    folder = Path(buildrc.__file__).parents[1]
    source = "".join(path.read_text() for path in folder.rglob("*.py"))
    events = set(re.findall(r'\.write\(\s*"(\w+)"', (folder / "commands/events.py").read_text()))
    categories = set(re.findall(r'span\("(\w+)", ', source))
    assert events >= {"started", "testResult"} and categories >= {"action", "cache"}
    for name in events | categories:
        assert re.search(rf"^\| [^|]*`{name}`", TEXT, re.MULTILINE), name
