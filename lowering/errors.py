"""The engine's errors: what cannot be lowered, at which node, from which line, and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever only reads a file needs its errors, and not torch
    import torch.fx


# node.meta's key for the name by which the user knows a node that was renamed.
GIVEN_NAME = "given_name"


class LoweringError(Exception):
    """A program that cannot be lowered as asked. The message is complete: it is shown as it is.

    `remedies` are numbered ways out, best first. `node` adds the node's name, its operator and
    the line of the model's source that made it.
    """

    def __init__(self, message: str, *, node: torch.fx.Node | None = None, remedies: Sequence[str] = ()):
        self.node = node
        self.remedies = tuple(remedies)
        lines = [message]
        if node is not None:
            lines.append(f"  node: {node.meta.get(GIVEN_NAME, node.name)} = {node.target}")
            source = source_line(node)
            if source:
                lines.append(f"  from: {source}")
        lines.extend(f"  {number}. {remedy}" for number, remedy in enumerate(self.remedies, 1))
        super().__init__("\n".join(lines))


class InvalidFileError(Exception):
    """A file that is not what it should be: one line that names the file's kind and the defect."""

    def __init__(self, message: str):
        # A message may quote what stands in the file, which may be all of it.
        super().__init__(message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…")


_LONGEST = 500


def source_line(node: torch.fx.Node) -> str | None:
    """`file:line: code` of the model's source that made `node`, or None where export kept none.

    Of the frames that export kept, it is the innermost that is not torch's own; the model's author knows that one.
    """
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    # Frames are printed as in a Python traceback: a 'File "x", line n, in f' line, then the code.
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    if not frames:
        return None
    own = [index for index in frames if not _TORCH_FILE.match(lines[index])]
    index = own[-1] if own else frames[-1]
    file, _, rest = lines[index][len('File "') :].partition('", line ')
    code = lines[index + 1] if index + 1 < len(lines) else ""
    return f"{file}:{rest.partition(',')[0]}: {code}".rstrip(": ")


# Below an import root, as files of programs have it, or below site-packages.
_TORCH_FILE = re.compile(r'File "(.*/site-packages/)?torch/')


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The end of a message about an unknown `name`: the nearest candidate, or all where none is near."""
    names = sorted(candidates)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if 0 < len(names) <= 10:
        return f" (there is: {', '.join(names)})"
    return ""
