"""The reference of the build language, docs/rules.md: `python -m rules_executorch.rules.reference > docs/rules.md`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from rules_executorch.builder.core.rule import COMMON_ATTRIBUTES, Attribute, RuleSchema

from . import RULES

_INTRODUCTION = """\
# Rules

What BUILD files may write. This page is made from the rules themselves, by
`python -m rules_executorch.rules.reference > docs/rules.md`.

Rules for models and backends, and the functions, are loaded:

```python
load("@rules_executorch//rules:defs.bzl", "delegation_spec", "executorch_model", "partitioner")
```

The other rules are known in every BUILD file, as are `glob`, `select`, `package`, `exports_files` and `load`.
"""

_GROUPS = {
    "Models and backends": ("executorch_model", "executorch_backend", "executorch_cc_library", "executorch_test"),
    "Files and commands": ("filegroup", "alias", "config_setting", "genrule"),
    "Python": ("py_library", "py_binary", "py_test"),
    "C++": ("cc_library", "cc_binary", "cc_test"),
}


def reference() -> str:
    """The page, as Markdown."""
    return "\n".join([_INTRODUCTION, *_rules(), *_functions(), *_common()])


def _functions() -> Iterator[str]:
    """The functions of defs.bzl that are no rules; its syntax, as far as it is used there, is Python's too."""
    yield "## Functions\n"
    tree = ast.parse(Path(__file__).with_name("defs.bzl").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name not in RULES:
            yield f"### {node.name}\n"
            yield f"```python\n{node.name}({ast.unparse(node.args)})\n```\n"
            yield from _docstring(ast.get_docstring(node) or "")


def _docstring(text: str) -> Iterator[str]:
    description, _, arguments = text.partition("\nArgs:\n")
    arguments, _, returns = arguments.partition("\nReturns:\n")
    yield description.strip() + "\n"
    for line in arguments.strip("\n").splitlines():
        name, _, meaning = line.strip().partition(": ")
        yield f"- `{name}`: {meaning}"
    yield f"\nReturns: {returns.strip()}\n"


def _rules() -> Iterator[str]:
    for title, names in _GROUPS.items():
        yield f"## {title}\n"
        for name in names:
            schema = RULES[name].schema
            yield f"### {name}\n"
            yield schema.doc + "\n"
            yield from _attributes(_public(schema))


def _common() -> Iterator[str]:
    yield "## Attributes of every rule\n"
    yield from _attributes(COMMON_ATTRIBUTES.items())


def _public(schema: RuleSchema) -> list[tuple[str, Attribute]]:
    return [(name, each) for name, each in schema.attributes.items() if not name.startswith("_")]


def _attributes(attributes: Iterable[tuple[str, Attribute]]) -> Iterator[str]:
    yield "| attribute | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, attribute in attributes:
        yield f"| `{name}` | {_type(attribute)} | {_default(attribute)} | {_cell(attribute.doc)} |"
    yield ""


def _type(attribute: Attribute) -> str:
    return f"{attribute.type.value} ({', '.join(attribute.extensions)})" if attribute.extensions else attribute.type.value


def _default(attribute: Attribute) -> str:
    if attribute.mandatory:
        return "mandatory"
    if attribute.default is None:
        return "none"
    default = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
    return f"`{str(default) if not isinstance(default, str) else repr(default)}`".replace("'", '"')


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
