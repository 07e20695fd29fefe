"""Runs a shell script that can call Python programs of the build as commands.

Usage: run_with_programs PROGRAMS SCRIPT

PROGRAMS is JSON: {path: [argument of the toolchain `python`, …]}. Each becomes an executable file at
its path, which runs the program as this one is run, from whatever folder it is called.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence


def launcher(interpreter: Sequence[str], arguments: Sequence[str]) -> str:
    """The text of a file that runs a program: `interpreter` is the toolchain's command, `arguments` follow it."""
    flag = "--import-root="
    absolute = [
        flag + os.path.abspath(argument[len(flag) :]) if argument.startswith(flag) else argument for argument in arguments
    ]
    return f'#!/bin/sh\nexec {shlex.join([*interpreter, *absolute])} "$@"\n'


def main(programs: str, script: str) -> int:
    """Run the script in bash; its exit status."""
    command = sys.orig_argv
    # What started this: the toolchain's command ends where its arguments for this program begin.
    interpreter = command[: command.index("--") + 1]
    for path, arguments in json.loads(programs).items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(launcher(interpreter, arguments))
        os.chmod(path, 0o755)
    sys.stdout.flush()
    os.execvp("bash", ["bash", "-c", script])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
