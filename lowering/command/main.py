"""Finds the command, runs it, and shows the user's errors as they are."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from ..errors import InvalidFileError, LoweringError

# Each is a module beside this one, with `configure(parser)` and `run(arguments)`. Only the one that
# is asked for is imported: reading a program needs no torch.
_COMMANDS = {
    "export": "export one method of a model: its graph and its constants",
    "lower": "lower exported methods to a program",
    "inspect": "say what a program holds",
    "difference": "say where two programs differ first",
    "operators": "list the operators that the target runtime has",
}

# torchao warns of each of its libraries for other processors when it is imported, and torch of what torchao registers:
# nothing that who lowers a model could mend.
_CHATTY = ("torchao", "torch.utils._pytree")


def main(argv: Sequence[str]) -> int:
    """Run one command; the exit status: 0, 1 for an error of the user's, 2 for a malformed command line."""
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(
        prog="python -m rules_executorch.lowering",
        description="The lowering engine: PyTorch models to ExecuTorch programs.",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((argument for argument in argv if argument in _COMMANDS), None)
    for name, summary in _COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == wanted:
            importlib.import_module(f".{name}_command", __package__).configure(subparser)
    arguments = parser.parse_args(argv)
    command = importlib.import_module(f".{arguments.command}_command", __package__)
    try:
        command.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who was reading has seen enough; python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except (LoweringError, InvalidFileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        # Not every library says which file: safetensors names it in its message only.
        print(f"error: there is no file {error.filename!r}" if error.filename else f"error: {error}", file=sys.stderr)
        return 1
    return 0
