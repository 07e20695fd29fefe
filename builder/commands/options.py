"""The command line: which verb, and its options."""

from __future__ import annotations

import argparse
import os

from .words import VERBS, CommandLineError, split_words

_DESCRIPTION = "Builds on-device models, and the apps that use them, from BUILD files."

_PATTERNS = """\
Targets:
  //models:dates     one target                 //models         short for //models:models
  :dates, dates      in the package one is in   //models:all     all targets of a package
  //models/...       of it and all below it     //...            of the whole workspace
  @repo//models:x    of another repository      -//models:x      but not this one (after others)
"""

# argparse would take a pattern such as -//x for an option; no pattern begins with this.
_EXCLUSION = "\0"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise CommandLineError(f"error: {message}\n  to fix: see `{self.prog} --help`")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options by name, with `verb`, `directory` (-C) and, for `run`, `arguments` (after --).

    Raises:
        CommandLineError: it is not a command line of ours.
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
    hidden = [_EXCLUSION + word if word.startswith(("-//", "-@", "-:")) else word for word in rest]
    options = parser_of(verb).parse_args(hidden)
    options.verb, options.directory, options.arguments = verb, directory, after
    if hasattr(options, "targets"):
        options.targets = [word.removeprefix(_EXCLUSION) for word in options.targets]
    return options


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of one verb's options."""
    return _PARSERS[verb]()


def _new(verb: str, usage: str, description: str, epilog: str = "") -> _Parser:
    return _Parser(
        prog=f"build {verb}",
        usage=f"build [-C DIR] {usage}",
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _build() -> _Parser:
    parser = _new("build", "[build] [OPTION …] TARGET …", f"{_DESCRIPTION}\nThe outputs are in build-out/.", _PATTERNS)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="what to build, see below")
    _add_build_options(parser)
    return parser


def _test() -> _Parser:
    parser = _new(
        "test",
        "test [OPTION …] TARGET …",
        "Builds targets and runs those that are tests. The last line counts test targets.\n"
        "Each test's output is in build-out/testlogs/<package>/<name>/test.log.",
        _PATTERNS,
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="what to build and test, see below")
    _add_build_options(parser)
    parser.add_argument("--nocache_test_results", action="store_true", help="run tests that have passed before, too")
    parser.add_argument(
        "--test_output",
        choices=("errors", "all", "summary"),
        default="errors",
        help="whose output to print: that of tests that fail (the default), of all, of none",
    )
    return parser


def _run() -> _Parser:
    parser = _new("run", "run [OPTION …] TARGET [-- ARG …]", "Builds a program and runs it with the arguments after --.")
    parser.add_argument("targets", nargs=1, metavar="TARGET", help="the program's target")
    _add_build_options(parser)
    return parser


def _query() -> _Parser:
    parser = _new(
        "query",
        "query [OPTION …] EXPRESSION",
        "Answers questions about the targets in BUILD files.",
        "Expressions:\n"
        "  //models/...                   targets, as for building\n"
        "  deps(X), deps(X, 2)            all that X depends on, at most 2 steps away\n"
        "  rdeps(//..., X)                all of //... that depends on X\n"
        "  kind('cc_.*', X)               those of X whose rule's name matches\n"
        "  attr(tags, 'slow', X)          those of X whose attribute's value matches\n"
        "  X + Y, X ^ Y, X - Y            union, intersection, difference\n",
    )
    parser.add_argument("expression", metavar="EXPRESSION", help="the question, see below")
    parser.add_argument("--output", choices=("label", "graph"), default="label", help="labels, or a graph for dot")
    _add_config(parser)
    return parser


def _clean() -> _Parser:
    return _new("clean", "clean", "Removes build-out/. The cache stays, so that building again runs nothing.")


def _inspect() -> _Parser:
    parser = _new("inspect", "inspect FILE.pte", "Prints what a program holds: methods, operators, delegates, memory.")
    parser.add_argument("arguments_of_inspect", nargs=argparse.REMAINDER, metavar="FILE.pte", help="the program")
    return parser


def _help() -> _Parser:
    parser = _new("help", "help [VERB]", "Prints what a verb does.")
    parser.add_argument("topic", nargs="?", choices=VERBS, metavar="VERB", help=", ".join(VERBS))
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", action="append", default=[], metavar="NAME", help="make config_settings of this name true"
    )


def _add_build_options(parser: argparse.ArgumentParser) -> None:
    _add_config(parser)
    parser.add_argument("-k", "--keep_going", action="store_true", help="after a failure, build all that can be built")
    parser.add_argument("-j", "--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="actions at once")
    parser.add_argument("--disk_cache", metavar="DIR", help="where results are kept (default: the user's cache folder)")
    parser.add_argument(
        "--sandbox",
        choices=("namespaces", "landlock", "forest"),
        help="how actions are kept to what they declare (default: the first of these that this machine allows)",
    )
    parser.add_argument("--explain", action="store_true", help="say of each action that ran what had changed")
    parser.add_argument("--color", choices=("yes", "no", "auto"), default="auto", help="colors (default: on a terminal)")
    parser.add_argument("--noworkers", action="store_true", help="run every action in a process of its own from the start")
    parser.add_argument("--noprogress", action="store_true", help="do not say what is being done")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


_PARSERS = {
    "build": _build,
    "test": _test,
    "run": _run,
    "query": _query,
    "clean": _clean,
    "inspect": _inspect,
    "help": _help,
}
