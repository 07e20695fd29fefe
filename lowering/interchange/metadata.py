"""What is known about nodes beside what they compute: `node.meta`, to and from plain data.

Kept are the source of a node (stack trace, module stack, the torch function), its debug handle, the
sizes that it is the first to produce, and what the user noted under "custom". File names in stack
traces become relative to the import root that they were found under, so that a program does not
depend on the folder in which it was exported. Frames of code that torch generated are left out: no file
has their lines, and their names are numbered through the life of a process.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv, _free_unbacked_symbols_with_path

from .interning import Table

_FRAME = re.compile(r'^(?=[ \t]*File ")', re.MULTILINE)
_GENERATED = re.compile(r'[ \t]*File "<eval_with_key>')
_FILE = re.compile(r'^([ \t]*File ")([^"\n]*)(")')


class MetadataWriter:
    """Collects frames of stack traces and module stacks; equal ones share an entry."""

    def __init__(self) -> None:
        self.frames = Table()
        self.module_stacks = Table()
        self._traces: dict[str, list[int]] = {}

    def encode(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Plain data for one node's metadata."""
        data: dict[str, Any] = {}
        if trace := meta.get("stack_trace"):
            data["trace"] = self._trace(trace)
        if stack := meta.get("nn_module_stack"):
            data["modules"] = self._module_stack(stack)
        if "torch_fn" in meta:
            data["torch_fn"] = list(meta["torch_fn"])
        if "debug_handle" in meta:
            data["debug_handle"] = meta["debug_handle"]
        if bindings := meta.get("unbacked_bindings"):
            data["unbacked"] = sorted(symbol.name for symbol in bindings)
        if (custom := meta.get("custom")) and _is_plain(custom):
            data["custom"] = custom
        return data

    def _trace(self, trace: str) -> list[int]:
        known = self._traces.get(trace)
        if known is None:
            frames = [frame for frame in _FRAME.split(trace) if frame and not _GENERATED.match(frame)]
            known = [self.frames.add(frame, frame) for frame in map(_relative_frame, frames)]
            self._traces[trace] = known
        return known

    def _module_stack(self, stack: dict[str, tuple[str, Any]]) -> int:
        entry = [[key, path, _type_name(kind)] for key, (path, kind) in stack.items()]
        return self.module_stacks.add(tuple(map(tuple, entry)), entry)


class MetadataReader:
    """Gives back nodes' metadata."""

    def __init__(self, frames: Sequence[str], module_stacks: Sequence[Any], shape_env: ShapeEnv):
        self._frames = frames
        self._module_stacks = [{key: (path, kind) for key, path, kind in stack} for stack in module_stacks]
        self._shape_env = shape_env

    def decode(self, data: dict[str, Any], value: Any) -> dict[str, Any]:
        """The metadata that `encode` wrote, for a node that computes `value`."""
        meta: dict[str, Any] = {}
        if "trace" in data:
            meta["stack_trace"] = "".join([self._frames[index] for index in data["trace"]])
        if "modules" in data:
            meta["nn_module_stack"] = dict(self._module_stacks[data["modules"]])
        if "torch_fn" in data:
            meta["torch_fn"] = tuple(data["torch_fn"])
        if "debug_handle" in data:
            meta["debug_handle"] = int(data["debug_handle"])
        if "custom" in data:
            meta["custom"] = data["custom"]
        if "unbacked" in data:
            names = set(data["unbacked"])
            pending = {symbol for symbol in self._shape_env.var_to_stack if symbol.name in names}
            meta["unbacked_bindings"] = _free_unbacked_symbols_with_path(
                value, (), shape_env=self._shape_env, pending=pending, simplify=True
            )
        return meta


def _relative_frame(frame: str) -> str:
    return _FILE.sub(lambda match: match[1] + relative_to_import_root(match[2], tuple(sys.path)) + match[3], frame)


@functools.lru_cache(maxsize=4096)
def relative_to_import_root(file: str, import_roots: tuple[str, ...]) -> str:
    """`file` without the longest of `import_roots` that it lies under; as it is where it lies under none."""
    best = ""
    for root in import_roots:
        folder = os.path.join(os.path.abspath(root), "")
        if file.startswith(folder) and len(folder) > len(best):
            best = folder
    return file[len(best) :].replace(os.sep, "/")


def _type_name(kind: type | str) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))
