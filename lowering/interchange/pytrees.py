"""How a method's inputs and outputs nest (torch's TreeSpec), to and from plain data.

A leaf is None. A container of the user's own is written as the tuple of its parts: reading must not
import the model's code, and the program is indifferent to how its flat inputs are nested.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

from torch.utils import _pytree as pytree

from ..errors import InvalidFileError

_SEQUENCES = {"tuple": tuple, "list": list}
_MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict}


def encode_spec(spec: pytree.TreeSpec) -> Any:
    """Plain data for a TreeSpec: None, or `[kind, keys or None, children]`."""
    if spec.is_leaf():
        return None
    children = [encode_spec(child) for child in spec.children()]
    if spec.type in (dict, OrderedDict):
        return [spec.type.__name__, list(spec.context), children]
    if spec.type is defaultdict:
        return ["dict", list(spec.context[1]), children]
    return ["list" if spec.type in (list, deque) else "tuple", None, children]


def decode_spec(data: Any) -> pytree.TreeSpec:
    """The TreeSpec that `encode_spec` wrote."""
    if data is None:
        return pytree.treespec_leaf()
    kind, keys, children = data
    specs = [decode_spec(child) for child in children]
    if kind in _SEQUENCES and keys is None:
        return pytree.TreeSpec(_SEQUENCES[kind], None, specs)
    if kind in _MAPPINGS and len(keys) == len(specs):
        return pytree.TreeSpec(_MAPPINGS[kind], list(keys), specs)
    raise InvalidFileError(f"edge program: {kind!r} is no kind of container for {len(specs)} parts")
