"""`inspect`: what a program holds, as tables or as JSON."""

from __future__ import annotations

import argparse

from ..format.inspect import describe
from ..format.read import read_pte


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("file", help="a .pte")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Print what the file holds. Raises InvalidFileError."""
    print(describe(read_pte(arguments.file), as_json=arguments.json))
