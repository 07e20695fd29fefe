"""Attributes that several rules have, so that they mean the same everywhere."""

from __future__ import annotations

from rules_executorch.builder.core.rule import Attribute, AttributeType

DATA = Attribute(
    AttributeType.LABEL_LIST,
    "Files, and targets whose files, are there at run time.",
    default=(),
    allow_files=True,
)

ARGS = Attribute(
    AttributeType.STRING_LIST,
    "Arguments that come before those of the command line. `$(location label)` stands for the path of "
    "a file of `data`.",
    default=(),
)

PY_DEPS = Attribute(AttributeType.LABEL_LIST, "py_library targets whose modules are imported.", default=())

REQUIREMENTS = Attribute(
    AttributeType.STRING_LIST,
    "Distributions (names as on PyPI) that the code imports, besides those that the toolchain `python` consists of: "
    "torch, executorch, torchao, numpy, safetensors, flatbuffers, pytest, and what these require. They, and what they "
    "require in turn, are installed where the builder is; their versions are part of what depends on them.",
    default=(),
)

CC_DEPS = Attribute(
    AttributeType.LABEL_LIST,
    "cc_library and executorch_cc_library targets whose headers are included and which are linked.",
    default=(),
)

# Private attributes: what the actions of rules run. Their names begin with _, so that no BUILD file sets them.
TOOLS = Attribute(AttributeType.LABEL, "The Python tools that actions run.", default="@rules_executorch//rules:tools")
LOWERING = Attribute(AttributeType.LABEL, "The lowering engine.", default="@rules_executorch//lowering")

TIMEOUTS = {"small": 60, "medium": 300, "large": 900, "enormous": 3600}

TEST_ATTRIBUTES = {
    "size": Attribute(
        AttributeType.STRING,
        "How long the test may take: small (1 minute), medium (5), large (15), enormous (60).",
        default="medium",
        values=tuple(TIMEOUTS),
    ),
    "timeout": Attribute(AttributeType.INT, "How many seconds the test may take, where `size` does not fit."),
}


def timeout_seconds(size: str, timeout: int | None) -> int:
    """How long a test with these attributes may take."""
    return TIMEOUTS[size] if timeout is None else timeout
