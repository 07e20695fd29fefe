"""`build help`: what the command and its verbs do."""

from __future__ import annotations

from . import exit_codes
from .verbs import parser_of

_OVERVIEW = """\
build [-C DIR] [VERB] …: builds on-device models, and the apps that use them, from BUILD files.

  build TARGET …             build targets; what was built and where is printed
  build test TARGET …        build targets and run those that are tests
  build run TARGET -- ARG …  build a program and run it
  build query EXPRESSION     ask about targets and what they depend on
  build inspect FILE.pte     print what a program holds
  build completion SHELL     complete words in bash or zsh
  build clean                remove build-out/
  build help VERB            more on a verb

  -C DIR                     as if started in DIR

Options may be kept in files .buildrc, one of the workspace and one of one's own in the home folder:
lines such as `build --keep_going`, or `build:ci --noprogress` for `--config=ci`.
"""


def main(options, started_in: str) -> int:
    """The verb. Returns an exit code."""
    if options.topic == "version":
        import importlib.metadata

        print(f"build {importlib.metadata.version('rules_executorch')}")
    elif options.topic:
        print(parser_of(options.topic).format_help(), end="")
    else:
        print(_OVERVIEW, end="")
    return exit_codes.SUCCESS
