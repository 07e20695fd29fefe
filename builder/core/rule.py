"""What a rule looks like from a BUILD file: its name, its attributes, their types and docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class AttributeType(Enum):
    """The types an attribute can have, with Bazel's meanings."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    STRING_LIST = "list of strings"
    STRING_DICT = "dict of strings"
    LABEL = "label"
    LABEL_LIST = "list of labels"
    # Names of the files that the target makes: each is a label in its package, with the target as its generator.
    OUTPUT_LIST = "list of outputs"
    # Lists, dicts, strings, numbers, bools and None, nested as the rule documents.
    PLAIN = "plain data"


@dataclass(frozen=True)
class Attribute:
    """One attribute of a rule.

    `extensions` limits the files that a label attribute takes (empty: any). `allow_files` says
    whether a label may name a source file. `values`, if any, lists the only valid strings.
    `configurable` says whether select() may be given. `may_repeat` says whether a list of labels may
    name one twice: it counts once.
    """

    type: AttributeType
    doc: str
    default: Any = None
    mandatory: bool = False
    allow_files: bool = False
    extensions: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    configurable: bool = True
    may_repeat: bool = False

    @property
    def is_label(self) -> bool:
        return self.type in (AttributeType.LABEL, AttributeType.LABEL_LIST)


@dataclass(frozen=True)
class RuleSchema:
    """The face of a rule: what BUILD files may write. Attributes every rule has are added here.

    Common attributes: `name`, `visibility`, `tags`, `testonly` (see COMMON_ATTRIBUTES).
    """

    name: str
    doc: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    is_test: bool = False
    is_executable: bool = False

    def __post_init__(self) -> None:
        clash = set(self.attributes) & set(COMMON_ATTRIBUTES)
        if clash:
            raise ValueError(f"rule {self.name} redefines common attributes {sorted(clash)}")

    @property
    def all_attributes(self) -> dict[str, Attribute]:
        return {**COMMON_ATTRIBUTES, **self.attributes}


COMMON_ATTRIBUTES: dict[str, Attribute] = {
    "name": Attribute(
        AttributeType.STRING, "The target's name, unique in its package.", mandatory=True, configurable=False
    ),
    "visibility": Attribute(
        AttributeType.STRING_LIST,
        "Who may depend on the target: '//visibility:public', '//visibility:private', "
        "'//pkg:__pkg__', '//pkg:__subpackages__'. Default: the package's default_visibility, or private.",
        configurable=False,
    ),
    "tags": Attribute(AttributeType.STRING_LIST, "Free words; `manual` keeps a target out of wildcards.", default=()),
    "testonly": Attribute(AttributeType.BOOL, "Only tests and testonly targets may depend on it.", default=False),
}
