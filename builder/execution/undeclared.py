"""Names what an action tried to read and did not declare: the path, who opened it, and the attribute to add it to.

Behind walls, what is not declared does not exist, and the tool that misses it says so in words of its own.
Here those words are compared with the workspace, and with what is installed.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..core.action import Action
from ..core.diagnostics import Diagnostic
from .layout import Layout
from .namespaces import ROOT
from .sandbox import Command

# How tools say that they miss something.
_COMPLAINT = re.compile(
    r"no such file|not found|cannot find|can't find|could not open|couldn't open|cannot open|permission denied|"
    r"does not exist|doesn't exist|no rule to make|unable to open|not a directory|filenotfounderror",
    re.IGNORECASE,
)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'|cannot import name '(\w+)' from '([\w.]+)'")
_TRACED = re.compile(r'^\s*File "([^"]+)", line \d+')
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|`([^`']+)'|‘([^’]+)’")
_WORD = re.compile(r"[^\s'\"`‘’:;,()<>]+")
_SPEAKER = re.compile(r"^((?:[\w.+-]*/)*[\w.+-]+):")
_FOLDERS_OF_ARGUMENTS = ("-I", "-iquote", "-isystem", "-L", "--import-root=")

_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
_BUILD_FILES = ("BUILD", "BUILD.bazel")


@dataclass(frozen=True)
class _Undeclared:
    """A file or folder that exists and is not declared, and who missed it, as far as is known."""

    path: Path
    who: str


@dataclass(frozen=True)
class _Sight:
    """What an action could have meant: its repositories' roots by name, and the folders that it looks in."""

    layout: Layout
    action: Action
    command: Command

    @functools.cached_property
    def roots(self) -> dict[str, Path]:
        """The repositories of which the action has sources, and the main one."""
        roots = {self.layout.name: self.layout.root}
        for artifact in self.action.inputs:
            repository, _, rest = artifact.exec_path.partition("/")
            if artifact.source is not None and repository not in roots and str(artifact.source).endswith(f"/{rest}"):
                roots[repository] = Path(str(artifact.source)[: -len(rest) - 1])
        return roots

    @functools.cached_property
    def folders(self) -> list[str]:
        """Where the action looks, as exec_paths: its root, its arguments' folders, the repositories, its package."""
        named = [a.removeprefix(flag) for a in self.command.argv for flag in _FOLDERS_OF_ARGUMENTS if a.startswith(flag)]
        repository, _, package = self.action.owner.partition("//")
        here = f"{repository.removeprefix('@') or self.layout.name}/{package.partition(':')[0]}"
        return list(dict.fromkeys(["", *named, *self.roots, here]))

    @functools.cached_property
    def seen(self) -> tuple[str, ...]:
        """What an absolute path begins with that an action may well name."""
        declared = (*self.command.files.values(), *self.command.visible)
        return (*_SEEN, *(f"{path}/" for path in declared))

    def find(self, text: str) -> Path | None:
        """The existing thing that a path in a message means, if it is one that is not declared."""
        path = os.path.normpath(text)
        if not path.strip("/."):
            return None
        if path.startswith(f"{ROOT}/"):
            path = os.path.relpath(path, ROOT)
        if os.path.isabs(path):
            seen = path == "/tmp" or f"{path}/".startswith(self.seen)
            return Path(path) if not seen and os.path.lexists(path) else None
        return next((found for folder in self.folders if (found := self._find_in(folder, path))), None)

    def _find_in(self, folder: str, path: str) -> Path | None:
        exec_path = os.path.normpath(os.path.join(folder, path))
        repository, _, rest = exec_path.partition("/")
        root = self.roots.get(repository)
        if root is None or not rest or rest.startswith("..") or exec_path in self.command.files:
            return None
        places = (root / rest, self.layout.output(exec_path))
        return next((place for place in places if place.is_file()), None)


# How many characters of an output, from its end, are read, and how many mistakes are told.
_READ = 1 << 16
_MOST = 5
# Below these nothing is undeclared.
_SEEN = ("/usr/", "/bin/", "/lib", "/sbin/", "/dev/", "/proc/", "/sys/", "/run/build/")


def named_in(text: str, action: Action, command: Command, layout: Layout) -> list[Diagnostic]:
    """What `text`, the output of the action that failed, says it missed, and that exists."""
    sight = _Sight(layout, action, command)
    found: dict[object, Diagnostic] = {}
    who = ""
    for line in text[-_READ:].splitlines():
        if len(found) == _MOST:
            break
        if traced := _TRACED.match(line):
            if traced.group(1).startswith(f"{ROOT}/"):
                who = os.path.relpath(traced.group(1), ROOT)
        elif missing := _NO_MODULE.search(line):
            module = missing.group(1) or f"{missing.group(3)}.{missing.group(2)}"
            if diagnostic := _missing_module(module, who, sight):
                found.setdefault(module, diagnostic)
        elif _COMPLAINT.search(line):
            speaker = _SPEAKER.match(line)
            name = who if not speaker or speaker.group(1).endswith("Error") else speaker.group(1)
            for path in filter(None, map(sight.find, _paths_in(line))):
                found.setdefault(path, diagnose(path, name, action, layout))
    return list(found.values())


def diagnose(path: Path, who: str, action: Action, layout: Layout) -> Diagnostic:
    """The mistake of reading `path`, which exists, without having declared it."""
    who = who or action.mnemonic
    label = _label_of(path, layout)
    if label is None:
        return Diagnostic(
            f"{who} opened {path}, which is no file of the workspace: {action.owner} must not depend on this machine",
            remedy=f"copy what is needed into the workspace, and add it to {_attribute(path, action)}",
        )
    is_output = layout.outputs in path.parents
    what = f"the target that makes {label}" if is_output else f'"{label}"'
    return Diagnostic(
        f"{who} opened {path}, which {action.owner} does not declare",
        remedy=f"add {what} to {_attribute(path, action)} of {action.owner}",
    )


def _attribute(path: Path, action: Action) -> str:
    """The attribute that files of this kind are named in, by targets whose actions are of this kind."""
    if action.mnemonic == "Genrule":
        return "`tools`" if path.is_file() and os.access(path, os.X_OK) else "`srcs`"
    if path.suffix in _HEADERS:
        return "`hdrs` of a cc_library among the `deps`"
    if path.suffix == ".py":
        return "`srcs` of a py_library among the `deps`"
    return "`deps`" if action.mnemonic.startswith("Cpp") else "`data`"


def _label_of(path: Path, layout: Layout) -> str | None:
    """The label of a file in the main workspace; None for one that is elsewhere."""
    for top in (layout.outputs, layout.root):
        if top in path.parents:
            source = layout.root / path.relative_to(top)
            packages = (p for p in source.parents if any((p / name).is_file() for name in _BUILD_FILES))
            package = next(packages, layout.root)
            if package == layout.root or layout.root in package.parents:
                name = source.relative_to(package).as_posix()
                folder = package.relative_to(layout.root).as_posix()
                return f"//{'' if folder == '.' else folder}:{name}"
    return None


def _missing_module(module: str, who: str, sight: _Sight) -> Diagnostic | None:
    stem = module.replace(".", "/")
    for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
        if path := sight.find(candidate):
            return diagnose(path, who, sight.action, sight.layout)
    top = module.partition(".")[0]
    import importlib.metadata  # Loads much, and is not needed before something is missing.

    distributions = importlib.metadata.packages_distributions().get(top)
    if not distributions or top == "rules_executorch":
        return None
    return Diagnostic(
        f"{who or sight.action.mnemonic} imports {module}, of the distribution {distributions[0]}, "
        f"which {sight.action.owner} does not declare",
        remedy=f'add "{distributions[0]}" to `requirements` of the py_library, py_binary or py_test that imports it',
    )


def _paths_in(line: str) -> Iterable[str]:
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(line)]
    words = (word.rstrip(".") for word in _WORD.findall(line))
    return dict.fromkeys(path for path in (*quoted, *words) if len(path) > 1 and "\0" not in path)
