"""`build completion`: what a shell asks for to complete a word, and how it is told to ask."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from ..core.diagnostics import BuildError
from ..loading.root import find_root
from . import exit_codes
from .unchanged import package_of
from .verbs import Parser, parser_of
from .words import VERBS, CommandLineError, split_words

# bash splits words at ":" and "=" as well, and replaces what follows the last of these.
_BASH = r"""
_build_complete() {
    local words candidate typed
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    typed="${words[-1]}"
    COMPREPLY=()
    while IFS= read -r candidate; do
        [[ $candidate == *[/:=] ]] && compopt -o nospace
        COMPREPLY+=("${candidate#"${typed%"${typed##*[:=]}"}"}")
    done < <("${words[0]}" completion bash "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _build_complete build buildw ./buildw
"""

_ZSH = r"""
_build() {
    local -a found
    found=("${(@f)$("${words[1]}" completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    (( $#found )) || { _files; return }
    compadd -S '' -- ${(M)found:#*[/:=]}
    compadd -- ${found:#*[/:=]}
}
compdef _build build buildw ./buildw
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH}


def main(options, started_in: str) -> int:
    """The verb: prints the shell's script, or, given the words of a command line, what its last one may become."""
    if options.words:
        print("".join(f"{candidate}\n" for candidate in candidates(options.words)), end="")
    else:
        print(_SCRIPTS[options.shell].strip())
    return exit_codes.SUCCESS


def candidates(words: list[str]) -> list[str]:
    """What the last of `words`, the words of a command line after `build`, may become; nothing where files may stand.

    Mistakes in the workspace make this less, and are never told here.
    """
    *before, typed = words
    try:
        directory, verb, rest = split_words(before)
    except CommandLineError:
        return []
    if verb is None and not rest and not typed.startswith("-"):
        found = [*VERBS, *_labels(typed, "build", directory)] if not typed.startswith(("/", "@", ":")) else None
        return _starting(typed, found if found is not None else _labels(typed, "build", directory))
    verb = verb or "build"
    if "--" in rest:
        return []
    parser = parser_of(verb)
    previous = rest[-1] if rest else ""
    option, equals, _ = typed.partition("=")
    if typed.startswith("--") and equals:
        return _starting(typed, [f"{option}={value}" for value in _values(parser, option, directory)])
    action = _find(parser, previous)
    if action is not None and action.nargs != 0:
        return _starting(typed, _values(parser, previous, directory))
    if typed.startswith("-") and not typed.startswith(("-/", "-:", "-@")):
        return _starting(typed, [_shown(action, name) for action in parser.options for name in action.option_strings])
    if verb == "help":
        return _starting(typed, VERBS)
    if verb in ("build", "test", "run", "query"):
        return _starting(typed, _labels(typed, verb, directory))
    return []


def _starting(typed: str, found) -> list[str]:
    return sorted({candidate for candidate in found if candidate.startswith(typed)})


def _find(parser: Parser, option: str) -> argparse.Action | None:
    return next((action for action in parser.options if option in action.option_strings), None)


def _shown(action: argparse.Action, name: str) -> str:
    return f"{name}=" if action.nargs != 0 and name.startswith("--") else name


def _values(parser: Parser, option: str, directory: str | None) -> list[str]:
    """The values that an option can have, where they are known."""
    action = _find(parser, option)
    if action is None:
        return []
    if action.dest == "config":
        from . import buildrc

        try:
            lines = buildrc.read(find_root(os.path.join(os.getcwd(), directory or "")))
        except BuildError:
            return []
        return [line.config for line in lines if line.config]
    return list(action.choices or ())


def _labels(typed: str, verb: str, directory: str | None) -> Iterator[str]:
    """The packages and targets that a beginning of a pattern may mean."""
    start = os.path.join(os.getcwd(), directory or "")
    root = find_root(start)
    if root is None:
        return
    minus = "-" if typed.startswith("-") else ""
    text = typed.removeprefix("-")
    repository, slashes, path = text.partition("//")
    if not slashes:
        path, repository = text, ""
    package, colon, _ = path.partition(":")
    own = package_of(root, start)
    if colon:
        named = package if slashes else "/".join(part for part in (own, package) if part)
        prefix = f"{minus}{repository}{slashes}{package}:"
        yield from (f"{prefix}{name}" for name in (*_targets(root, repository.removeprefix("@"), named, verb), "all"))
    elif slashes and not repository:
        for folder, is_package in _folders(root, package):
            yield f"{minus}//{folder}/"
            if is_package:
                yield f"{minus}//{folder}:"
        if "" == package:
            yield from (f"{minus}//:", f"{minus}//...")
    elif not slashes:
        if not text:
            yield from (f"{minus}//", f"{minus}:")
        yield from (f"{minus}{name}" for name in _targets(root, "", own, verb))


def _folders(root: str, typed: str) -> Iterator[tuple[str, bool]]:
    """The folders that have packages and whose path begins with `typed`, one level deep, and whether each is one."""
    from ..loading.files import Files
    from ..loading.patterns import packages_below

    files = Files()
    parent = typed.rpartition("/")[0]
    for name in sorted(files.entries(os.path.join(root, parent)) or {}):
        folder = f"{parent}/{name}" if parent else name
        if folder.startswith(typed) and not files.is_workspace(f"{root}/{folder}"):
            if next(packages_below(f"{root}/{folder}", folder, files), None) is not None:
                yield folder, files.is_package(f"{root}/{folder}")


def _targets(root: str, repository: str, package: str, verb: str) -> list[str]:
    """The names of the targets in a package; for `test`, of those that are tests."""
    from rules_executorch.rules import RULES

    from ..loading.files import Files
    from ..loading.interpreter import Interpreter
    from ..loading.packages import NoPackage, Packages
    from ..loading.workspace import find_workspace

    schemas = {name: rule.schema for name, rule in RULES.items()}
    try:
        with Interpreter(schemas) as interpreter:
            packages = Packages(find_workspace(Path(root)), Files(), interpreter, schemas, [])
            calls = packages.get(repository, package).calls
    except (BuildError, NoPackage):
        return []
    return [name for name, call in calls.items() if verb != "test" or schemas[call.name].is_test]
