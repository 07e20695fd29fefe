"""docs/rules.md says what the rules say."""

from __future__ import annotations

from pathlib import Path

from rules_executorch.rules import RULES
from rules_executorch.rules.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run: python -m rules_executorch.rules.reference > docs/rules.md"


def test_every_rule_and_public_attribute_is_on_the_page() -> None:
    text = reference()
    for name, rule in RULES.items():
        assert f"### {name}\n" in text
        section = text.partition(f"### {name}\n")[2].partition("\n### ")[0]
        for attribute in rule.schema.attributes:
            public = not attribute.startswith("_")
            assert (f"| `{attribute}` |" in section) == public


def test_every_attribute_is_documented_in_sentences() -> None:
    for rule in RULES.values():
        assert rule.schema.doc.endswith(".")
        for name, attribute in rule.schema.all_attributes.items():
            assert attribute.doc.rstrip(")").endswith("."), (rule.schema.name, name)
