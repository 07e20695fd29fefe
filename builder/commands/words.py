"""The first words of a command line: in which folder, and which verb. Imports nothing: every command begins here."""

from __future__ import annotations

import os

VERBS = ("build", "test", "run", "query", "clean", "inspect", "completion", "help")

# Options that are meant on every command line, in the root folder of a workspace and in the user's home.
RC_FILE = ".buildrc"


class CommandLineError(Exception):
    """The command line cannot be understood; the message says why."""


def rc_files(root: str | None) -> list[str]:
    """The files of options that are there: of the workspace at `root`, if there is one, then the user's own."""
    folders = [root, os.path.expanduser("~")] if root else [os.path.expanduser("~")]
    return [path for folder in dict.fromkeys(folders) if os.path.exists(path := os.path.join(folder, RC_FILE))]


def split_words(arguments: list[str]) -> tuple[str | None, str | None, list[str]]:
    """The folder given with -C before the verb, the verb, and the rest; None for what is not there.

    Folders given several times are relative one to the other, as make has it.

    Raises:
        CommandLineError: -C names no folder.
    """
    directory, rest = None, list(arguments)
    while rest and rest[0].startswith("-C"):
        word = rest.pop(0)[2:]
        if not word:
            if not rest:
                raise CommandLineError("error: -C needs a folder")
            word = rest.pop(0)
        directory = os.path.join(directory or "", word)
    verb = rest.pop(0) if rest and rest[0] in VERBS else None
    return directory, verb, rest
