"""The parsers of the verbs: what each takes, and what its help says."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from .words import VERBS, CommandLineError

_DESCRIPTION = "Builds on-device models, and the apps that use them, from BUILD files."

_PATTERNS = """\
Targets:
  //models:dates     one target                 //models         short for //models:models
  :dates, dates      in the package one is in   //models:all     all targets of a package
  //models/...       of it and all below it     //...            of the whole workspace
  @repo//models:x    of another repository      -//models:x      but not this one (after others)
"""

_EXIT_CODES = """\
Exit codes, as in Bazel:
  0  all went well               4  built, but there are no tests
  1  the build failed            8  interrupted
  2  a mistake in the command   36  the disk is full, or the like
  3  built, but tests failed    37  a bug in rules_executorch
"""

SHELLS = ("bash", "zsh")


class Parser(argparse.ArgumentParser):
    """A verb's parser. `options` are those that begin with a dash, in order, without --help."""

    def __init__(self, verb: str, usage: str, description: str, epilog: str = ""):
        self.options: list[argparse.Action] = []
        super().__init__(
            prog=f"build {verb}",
            usage=f"build [-C DIR] {usage}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.options.clear()  # --help is no option of the verb's own

    def add_argument(self, *names: str, **settings) -> argparse.Action:
        """As argparse has it; and remembers options."""
        action = super().add_argument(*names, **settings)
        if action.option_strings:
            self.options.append(action)
        return action

    def add_switch(self, name: str, *short: str, default: bool = False, help: str) -> None:
        """An option `--name`, which `--noname` undoes; help shows the one that is not the default."""
        hidden = argparse.SUPPRESS
        self.add_argument(
            *short, f"--{name}", dest=name, action="store_true", default=default, help=hidden if default else help
        )
        self.add_argument(f"--no{name}", dest=name, action="store_false", help=help if default else hidden)

    def error(self, message: str) -> None:
        """Raise CommandLineError."""
        raise CommandLineError(f"error: {message}\n  to fix: see `{self.prog} --help`")


def parser_of(verb: str) -> Parser:
    """The parser of one verb."""
    return _PARSERS[verb]()


def _build() -> Parser:
    usage = "[build] [OPTION …] TARGET …"
    description = f"{_DESCRIPTION}\nThe outputs are in build-out/."
    parser = Parser("build", usage, description, f"{_PATTERNS}\n{_EXIT_CODES}")
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="what to build, see below")
    _add_build_options(parser)
    parser.add_switch(
        "check_determinism",
        help="after building, run each action again under other conditions, and compare its outputs byte by byte",
    )
    return parser


def _test() -> Parser:
    parser = Parser(
        "test",
        "test [OPTION …] TARGET …",
        "Builds targets and runs those that are tests. The last line counts test targets.\n"
        "Each test's output is in build-out/testlogs/<package>/<name>/test.log.",
        f"{_PATTERNS}\n{_EXIT_CODES}",
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="what to build and test, see below")
    _add_build_options(parser)
    parser.add_switch("cache_test_results", default=True, help="run tests that have passed before, too")
    parser.add_argument(
        "--test_output",
        choices=("errors", "all", "summary"),
        default="errors",
        help="whose output to print: that of tests that fail (the default), of all, of none",
    )
    return parser


def _run() -> Parser:
    parser = Parser(
        "run",
        "run [OPTION …] TARGET [-- ARG …]",
        "Builds a program and runs it with the arguments after --. The exit code is the program's.",
        _EXIT_CODES,
    )
    parser.add_argument("targets", nargs=1, metavar="TARGET", help="the program's target")
    _add_build_options(parser)
    return parser


def _query() -> Parser:
    parser = Parser(
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
    _add_general_options(parser)
    return parser


def _clean() -> Parser:
    return Parser(
        "clean", "clean", "Removes build-out/. The cache stays, so that building again runs nothing."
    )


def _inspect() -> Parser:
    description = "Prints what a program holds: methods, operators, delegates, memory."
    parser = Parser("inspect", "inspect FILE.pte", description)
    parser.add_argument("arguments_of_inspect", nargs=argparse.REMAINDER, metavar="FILE.pte", help="the program")
    return parser


def _completion() -> Parser:
    parser = Parser(
        "completion",
        "completion SHELL",
        "Prints what makes a shell complete verbs, options, packages and targets after `build`.",
        'For bash, in ~/.bashrc:  eval "$(build completion bash)"\n'
        'For zsh, in ~/.zshrc, after compinit:  eval "$(build completion zsh)"\n',
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))
    # What the shells ask when a word is to be completed: the words of the command line up to it.
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _help() -> Parser:
    parser = Parser("help", "help [VERB]", "Prints what a verb does.")
    parser.add_argument("topic", nargs="?", choices=VERBS, metavar="VERB", help=", ".join(VERBS))
    return parser


def _add_general_options(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME",
        help="make config_settings of this name true, and take the options of this name from .buildrc",
    )
    parser.add_argument("--ignore_all_rc_files", action="store_true", help="take no options from .buildrc")


def _add_build_options(parser: Parser) -> None:
    _add_general_options(parser)
    parser.add_switch("keep_going", "-k", help="after a failure, build all that can be built")
    parser.add_argument("-j", "--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="actions at once")
    parser.add_argument("--disk_cache", metavar="DIR", help="where results are kept (default: the user's cache folder)")
    parser.add_argument(
        "--sandbox",
        choices=("namespaces", "landlock", "forest"),
        help="how actions are kept to what they declare (default: the first of these that this machine allows)",
    )
    parser.add_switch("sandbox_debug", help="keep the folder of every action that runs, and say how to run it again")
    parser.add_switch("workers", default=True, help="run every action in a process of its own from the start")
    parser.add_switch("explain", help="say of each action that ran what had changed")
    parser.add_argument("--profile", metavar="FILE", help="write where the time went, for chrome://tracing or Perfetto")
    parser.add_argument(
        "--build_event_json_file", metavar="FILE", help="write what happens, one JSON object per line, as Bazel does"
    )
    parser.add_argument("--color", choices=("yes", "no", "auto"), default="auto", help="colors (default: on a terminal)")
    parser.add_switch("progress", default=True, help="do not say what is being done")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


_PARSERS: dict[str, Callable[[], Parser]] = {
    "build": _build,
    "test": _test,
    "run": _run,
    "query": _query,
    "clean": _clean,
    "inspect": _inspect,
    "completion": _completion,
    "help": _help,
}
