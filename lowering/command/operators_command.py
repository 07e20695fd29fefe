"""`operators`: the kernels that the target runtime has."""

from __future__ import annotations

import argparse

from ..errors import LoweringError
from ..operators import named_operator_set


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "sets", nargs="*", default=["stock"], help="stock (the unmodified runtime), quantized, llm; by default stock"
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the names, as the runtime's registry spells them. Raises LoweringError for an unknown set."""
    try:
        names = set().union(*(named_operator_set(name).names for name in arguments.sets))
    except LookupError as error:
        raise LoweringError(str(error)) from error
    print("\n".join(sorted(names)))
