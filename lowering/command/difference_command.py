"""`difference`: where two programs differ first."""

from __future__ import annotations

import argparse

from ..format.difference import first_difference
from ..format.read import read_pte


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("first", help="a .pte")
    parser.add_argument("second", help="another one")


def run(arguments: argparse.Namespace) -> None:
    """Print one line. Raises InvalidFileError."""
    found = first_difference(read_pte(arguments.first), read_pte(arguments.second))
    print(found or "they mean the same: only padding or the order of tables differs")
