"""How a method's inputs and outputs nest, for hosts that restore the nesting; the runtime ignores it."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram
from torch.utils._pytree import TreeSpec, tree_flatten, treespec_dumps

from ..format.schema import ContainerMetadata


def containers(program: ExportedProgram) -> ContainerMetadata | None:
    """The nesting of the arguments and of the result, in torch's notation; None where it is not known."""
    call_spec = program.call_spec
    if call_spec.in_spec is None or call_spec.out_spec is None:
        return None
    return ContainerMetadata(_text(call_spec.in_spec), _text(call_spec.out_spec))


def container_of(value: Any) -> tuple[list[Any], ContainerMetadata]:
    """The leaves of what a method without inputs returns, and how they nest."""
    leaves, spec = tree_flatten(value)
    return leaves, ContainerMetadata("", _text(spec))


def _text(spec: TreeSpec) -> str:
    try:
        return treespec_dumps(spec)
    except NotImplementedError:  # a type that torch has no name for, such as topk's named tuple
        return treespec_dumps(tree_flatten(tuple(range(spec.num_leaves)))[1])
