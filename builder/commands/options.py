"""Reads a command line: its verb, and its options together with those of .buildrc."""

from __future__ import annotations

import argparse
import os

from ..loading.root import find_root
from .verbs import parser_of
from .words import VERBS, CommandLineError, rc_files, split_words

# argparse would take a pattern such as -//x for an option; no pattern begins with this.
_EXCLUSION = "\0"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options by name, with `verb`, `directory` (-C) and, for `run`, `arguments` (after --).

    Those of .buildrc stand before those of the command line, which therefore has the last word. `sections`
    are the names that .buildrc has options for, and that may be given with --config.

    Raises:
        CommandLineError: it is not a command line of ours.
        UsageError: .buildrc has a mistake.
        SystemExit: help or the version was asked for, and printed.
    """
    directory, named, rest = split_words(arguments)
    verb = named or ("build" if rest else "help")
    if named is None and rest and rest[0] in ("-h", "--help", "--version"):
        verb, rest = ("version", []) if rest[0] == "--version" else ("help", [])
    after: list[str] = []
    if verb == "run" and "--" in rest:
        at = rest.index("--")
        rest, after = rest[:at], rest[at + 1 :]
    if verb == "version":
        return argparse.Namespace(verb="help", topic="version", directory=directory)
    rest, sections = _with_buildrc(verb, rest, os.path.join(os.getcwd(), directory or ""))
    hidden = [_EXCLUSION + word if word.startswith(("-//", "-@", "-:")) else word for word in rest]
    options = parser_of(verb).parse_args(hidden)
    options.verb, options.directory, options.arguments, options.sections = verb, directory, after, sections
    if hasattr(options, "targets"):
        options.targets = [word.removeprefix(_EXCLUSION) for word in options.targets]
        if named is None and options.targets[0] in VERBS:
            raise _late_verb(options.targets[0])
    return options


def _with_buildrc(verb: str, words: list[str], start: str) -> tuple[list[str], tuple[str, ...]]:
    """The command line with the options of .buildrc, and the names of all of its sections."""
    root = find_root(start)
    if not rc_files(root):
        return words, ()
    # What follows takes a few milliseconds to import.
    from . import buildrc

    if verb not in buildrc.INHERITS or "--ignore_all_rc_files" in words:
        return words, ()
    lines = buildrc.read(root)
    return buildrc.expand(lines, verb, words), tuple(sorted({line.config for line in lines if line.config}))


def _late_verb(verb: str) -> CommandLineError:
    return CommandLineError(
        f"error: '{verb}' stands after options, where targets are expected\n"
        f"  to fix: write `build {verb} [OPTION …]`; a target of that name is :{verb}"
    )
