"""What a zygote has imported before any action asks: modules of the toolchain, and layers of actions' own inputs.

A layer's modules are imported from a private copy of exactly the inputs that the layer names, whose digests
are checked while they are copied. In an action's process they then pass for modules of its execution
root, where the same files stand. Standard library only: this runs in the processes of actions.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import importlib.machinery
import linecache
import os
import sys
import types
import weakref
from collections.abc import Container, Iterable, Iterator, Sequence

from . import python_launcher
from .namespaces import ROOT


class LayerError(Exception):
    """A layer that cannot be preloaded: its files are not those that were named."""


def preload_toolchain(modules: Iterable[str], site_packages: Sequence[str]) -> None:
    """Import modules of the toolchain, as a process does that has nothing of an action's."""
    with _importing_from([], site_packages):
        for name in modules:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)


def preload_layer(layer: dict, folder: str, site_packages: Sequence[str]) -> None:
    """Copy the files of `layer` into `folder` and take its steps there.

    `layer` has `steps` ("module", which is imported, or "module:function", which is called, too),
    `import_roots`, and `files`: {exec_path: [where it is, SHA-256]}.

    Raises:
        LayerError: a file is not what its digest says.
        Exception: whatever the modules raise.
    """
    _copy(layer["files"], folder)
    roots = [os.path.normpath(os.path.join(folder, root)) for root in layer["import_roots"]]
    with _importing_from(roots, site_packages), _compiled_as_in_an_action(folder):
        for step in layer["steps"]:
            name, _, function = step.partition(":")
            module = importlib.import_module(name)
            if function:
                getattr(module, function)()


def repeat_steps(steps: Iterable[str], files: Container[str]) -> None:
    """Call the functions among the steps that this process has taken, again; `files` as for forget_traces.

    What they write to is shared with the processes that this one was forked from: now it has copies, which takes
    longer than all else that the functions do.

    Raises:
        Exception: whatever they raise.
    """
    for step in steps:
        name, _, function = step.partition(":")
        if function:
            getattr(sys.modules[name], function)()
    forget_traces(files)


def forget_traces(files: Container[str]) -> None:
    """Remove what imports leave behind that a new process would not have, or that would cost each action time.

    `files` are the toolchain's, which somebody sees to it that they do not change.
    """
    for module in list(sys.modules.values()):
        # Otherwise a warning that was given here would not be given in an action.
        if isinstance(module, types.ModuleType):
            vars(module).pop("__warningregistry__", None)
    for name in [name for name in linecache.cache if name not in files]:
        del linecache.cache[name]
    # At its end an action does what it has itself registered; of the rest, only what matters to it.
    atexit._clear()
    for name, function in (("logging", "shutdown"), ("multiprocessing.util", "_exit_function")):
        if module := sys.modules.get(name):
            atexit.register(getattr(module, function))
    for information in weakref.finalize._registry.values():
        information.atexit = False
    weakref.finalize._registered_with_atexit = False


def modules_below(folders: Sequence[str]) -> list[types.ModuleType]:
    """The modules that were imported from copies in `folders`, and the packages that they are in."""

    def is_below(module: object) -> bool:
        path = getattr(module, "__path__", ())
        entries = path if type(path) is list else ()  # Other kinds find out for themselves that they have moved.
        return any(_is_below(entry, folders) for entry in (getattr(module, "__file__", None), *entries))

    return [module for module in list(sys.modules.values()) if isinstance(module, types.ModuleType) and is_below(module)]


def shadows(names: Iterable[str], import_roots: Sequence[str], files: Iterable[str]) -> str | None:
    """A name that an action with these import roots and files could import from elsewhere, if there is one.

    What was preloaded under it may then not be what the action would have imported.
    """
    wanted, places = set(names), {}
    prefixes = ["" if root == "." else f"{os.path.normpath(root)}/" for root in dict.fromkeys(import_roots)]
    for file in files:
        for prefix in prefixes:
            if file.startswith(prefix):
                first = file[len(prefix) :].partition("/")[0]
                name = first.partition(".")[0]
                if name in wanted and places.setdefault(name, prefix + first) != prefix + first:
                    return name
    return None


def move_modules(modules: Iterable[types.ModuleType], folders: Sequence[str], root: str) -> None:
    """Make `modules`, imported from copies in `folders`, say that they stand in the execution root `root`."""
    for module in modules:
        spec = module.__spec__
        path = getattr(module, "__path__", None)
        if type(path) is list:
            path[:] = [_moved(entry, folders, root) for entry in path]
        for thing, names in ((module, ("__file__", "__cached__")), (spec, ("origin", "cached"))):
            for name in names:
                if isinstance(value := getattr(thing, name, None), str):
                    setattr(thing, name, _moved(value, folders, root))
        if isinstance(loader := getattr(spec, "loader", None), importlib.machinery.SourceFileLoader):
            spec.loader = module.__loader__ = importlib.machinery.SourceFileLoader(
                loader.name, _moved(loader.path, folders, root)
            )


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a copy as the file of the execution root, so that tracebacks read as in any action."""

    folder = ""

    def source_to_code(self, data, path, **options):
        relative = os.path.relpath(path, self.folder)
        return super().source_to_code(data, os.path.join(ROOT, relative), **options)


@contextlib.contextmanager
def _compiled_as_in_an_action(folder: str) -> Iterator[None]:
    loader = type("LayerLoader", (_Loader,), {"folder": folder})
    hook = importlib.machinery.FileFinder.path_hook((loader, importlib.machinery.SOURCE_SUFFIXES))

    def below_folder(path: str):
        if not _is_below(f"{path}/", [folder]):
            raise ImportError("not of this layer")
        return hook(path)

    sys.path_hooks.insert(0, below_folder)
    try:
        yield
    finally:
        sys.path_hooks.remove(below_folder)
        for entry in [entry for entry in sys.path_importer_cache if _is_below(f"{entry}/", [folder])]:
            del sys.path_importer_cache[entry]


@contextlib.contextmanager
def _importing_from(roots: list[str], site_packages: Sequence[str]) -> Iterator[None]:
    """Import as an action does, and leave sys.path and sys.meta_path as they were."""
    path = list(sys.path)
    finder = python_launcher.OnlyDeclared(roots)
    sys.path[:] = [*roots, *path, *site_packages]
    sys.meta_path.insert(0, finder)
    if package := sys.modules.get(python_launcher.HIDDEN):
        # An earlier layer's: it spans both.
        package.__path__.extend(finder.folders())
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path[:] = path


def _copy(files: dict, folder: str) -> None:
    for exec_path, (source, digest) in files.items():
        with open(source, "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise LayerError(f"{source} has changed")
        destination = os.path.join(folder, exec_path)
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        with open(destination, "wb") as file:
            file.write(data)


def _moved(path: str, folders: Sequence[str], root: str) -> str:
    for folder in folders:
        if _is_below(path, [folder]):
            return root + path[len(folder) :]
    return path


def _is_below(path: object, folders: Sequence[str]) -> bool:
    return isinstance(path, str) and any(path.startswith(f"{folder}/") for folder in folders)
