"""Options that are meant on every command line: the files .buildrc of a workspace and of a user.

Each line is `SECTION[:NAME] OPTION …`, as in a .bazelrc. A section is a verb, or `common` for all verbs that have
the option; with a name, its options are meant where `--config=NAME` is given. `import FILE` and `try-import FILE`
take the lines of another file.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.diagnostics import Diagnostic, Location, UsageError, nearest
from .verbs import Parser, parser_of
from .words import RC_FILE, CommandLineError, rc_files

# The sections that each verb takes options from: the later ones have the last word.
INHERITS = {
    "build": ("common", "build"),
    "test": ("common", "build", "test"),
    "run": ("common", "build", "run"),
    "query": ("common", "query"),
}
_SECTIONS = ("common", *INHERITS)
_IMPORTS = ("import", "try-import")


@dataclass(frozen=True)
class Line:
    """The options of one line; `config` is "" for those that are always meant."""

    section: str
    config: str
    words: tuple[str, ...]
    location: Location
    text: str


def read(root: str | None) -> list[Line]:
    """The lines of the workspace's file, if there is a workspace, and then those of the user's.

    Raises:
        UsageError: a line cannot be understood, or a file that must be there cannot be read.
    """
    return [line for path in rc_files(root) for line in _read_file(path, root, ())]


def expand(lines: Sequence[Line], verb: str, words: Sequence[str]) -> list[str]:
    """The words of a command line after its verb, with all options that `lines` add.

    Raises:
        UsageError: a line that is meant has an option that its section does not have, or names itself.
    """
    always = _words_of(lines, verb, "")
    return _expand_configs(lines, verb, [*always, *words], ())


def _expand_configs(lines: Sequence[Line], verb: str, words: Sequence[str], inside: tuple[str, ...]) -> list[str]:
    """`words` with, after each --config, the options of that name."""
    expanded: list[str] = []
    names = iter(words)
    for word in names:
        expanded.append(word)
        if word == "--":
            expanded += names
        elif word == "--config":
            name = next(names, None)
            if name is None:
                break
            expanded.append(name)
            expanded += _options_of_config(lines, verb, name, inside)
        elif word.startswith("--config="):
            expanded += _options_of_config(lines, verb, word.partition("=")[2], inside)
    return expanded


def _options_of_config(lines: Sequence[Line], verb: str, name: str, inside: tuple[str, ...]) -> list[str]:
    if name in inside:
        line = next(line for line in lines if line.config == inside[-1] and any(name in word for word in line.words))
        cycle = " → ".join((*inside[inside.index(name) :], name))
        raise _mistake(line.location, line.text, f"the options of --config={name} name it again: {cycle}")
    return _expand_configs(lines, verb, _words_of(lines, verb, name), (*inside, name))


def _words_of(lines: Sequence[Line], verb: str, config: str) -> list[str]:
    """The options that `verb` takes from the lines of `config`, section by section."""
    words: list[str] = []
    for section in INHERITS[verb]:
        for line in lines:
            if line.section == section and line.config == config:
                words += _checked(line, verb)
    return words


def _checked(line: Line, verb: str) -> list[str]:
    """The options of a line; of `common` those that the verb has."""
    kept: list[str] = []
    names = (verb, *(v for v in INHERITS if v != verb)) if line.section == "common" else (line.section,)
    parsers = {name: parser_of(name) for name in names}
    words = list(line.words)
    while words:
        word = words.pop(0)
        option = word.partition("=")[0]
        having = [name for name, parser in parsers.items() if _find(parser, option)]
        if not having:
            raise _unknown(line, word, list(parsers.values()))
        # Switches stand alone; the others have their value after "=" or in the next word.
        takes_word = _find(parsers[having[0]], option).nargs != 0 and "=" not in word
        group = [word, *(words[:1] if takes_word else ())]
        del words[: len(group) - 1]
        _check_value(line, parsers[having[0]], group)
        if line.section != "common" or verb in having:
            kept += group
    return kept


def _check_value(line: Line, parser: Parser, group: list[str]) -> None:
    try:
        # Every verb here takes one operand.
        parser.parse_args(["//:x", *group])
    except CommandLineError as error:
        raise _mistake(line.location, line.text, str(error).splitlines()[0].removeprefix("error: ")) from None


def _find(parser: Parser, option: str) -> argparse.Action | None:
    return next((action for action in parser.options if option in action.option_strings), None)


def _unknown(line: Line, word: str, parsers: Sequence[Parser]) -> UsageError:
    if not word.startswith("-"):
        return _mistake(line.location, line.text, f"'{word}' is no option, and {RC_FILE} holds only options", word)
    known = [name for parser in parsers for action in parser.options for name in action.option_strings]
    near = nearest(word.partition("=")[0], known)
    notes = (f"did you mean '{near}'?",) if near else ()
    of = "any verb" if line.section == "common" else f"`build {line.section}`"
    return _mistake(line.location, line.text, f"'{word}' is no option of {of}", word, notes)


def _read_file(path: str, root: str | None, inside: tuple[str, ...]) -> list[Line]:
    """The lines of a file and of those that it imports; none where it is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Diagnostic(f"{path} cannot be read: {error}")) from None
    lines: list[Line] = []
    for number, joined in _joined_lines(text):
        location = Location(path, number)
        try:
            first, *words = shlex.split(joined, comments=True) or [""]
        except ValueError as error:
            message = f"{error}".lower().replace("no closing quotation", "a quotation mark has no second")
            raise _mistake(location, joined, message) from None
        if first in _IMPORTS:
            lines += _import(first, words, root, Line(first, "", tuple(words), location, joined), (*inside, path))
        elif first:
            lines.append(_line(first, words, location, joined))
    return lines


def _joined_lines(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers; one that ends with a backslash goes on in the next."""
    joined: list[tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(text.splitlines(), 1):
        if goes_on:
            first, begun = joined.pop()
            joined.append((first, begun + line))
        else:
            joined.append((number, line))
        goes_on = line.endswith("\\")
        if goes_on:
            joined[-1] = (joined[-1][0], joined[-1][1][:-1])
    return joined


def _line(first: str, words: list[str], location: Location, text: str) -> Line:
    section, _, config = first.partition(":")
    if section not in _SECTIONS:
        near = nearest(section, (*_SECTIONS, *_IMPORTS))
        note = f"did you mean '{near}'?" if near else f"sections are {', '.join(_SECTIONS)}"
        raise _mistake(location, text, f"'{section}' is no section of {RC_FILE}", first, (note,))
    return Line(section, config, tuple(words), location, text)


def _import(keyword: str, words: list[str], root: str | None, line: Line, inside: tuple[str, ...]) -> list[Line]:
    if len(words) != 1:
        raise _mistake(line.location, line.text, f"'{keyword}' takes one file")
    path = words[0].replace("%workspace%", root or "")
    path = os.path.abspath(os.path.join(os.path.dirname(line.location.file), os.path.expanduser(path)))
    if path in inside:
        raise _mistake(line.location, line.text, f"{path} imports itself")
    if keyword == "import" and not os.path.exists(path):
        remedy = "write try-import if it may be missing"
        raise _mistake(line.location, line.text, f"there is no file {path}", words[0], remedy=remedy)
    return _read_file(path, root, inside)


def _mistake(
    location: Location,
    text: str,
    message: str,
    word: str = "",
    notes: tuple[str, ...] = (),
    remedy: str | None = None,
) -> UsageError:
    """A mistake in a line, at `word` if that is given."""
    column = text.find(word) + 1 if word else 0
    place = Location(location.file, location.line, column)
    return UsageError(Diagnostic(message, place, text, max(1, len(word)), notes, remedy))
