"""What does not depend on inputs is computed at build time."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.utils._pytree import tree_leaves

from .parts import EdgeParts
from .recording import signature

# A folded constant may be this much larger than the constants that it is made of, in bytes: small
# tensors are cheaper to store than to compute, and folding must not blow the file up.
_ALLOWED_GROWTH = 1 << 14


def fold_constants(parts: EdgeParts) -> None:
    """Replace operators on constants by their results, as far as that does not make the program larger.

    Operators outside of ATen stay: quantized weights, for one, are what backends look for.
    """
    values: dict[Node, Any] = dict(parts.constant_placeholders())
    folded: list[Node] = []
    with torch.no_grad():
        for node in parts.graph.nodes:
            if node.op == "call_function" and all(n in values for n in node.all_input_nodes) and _may_fold(node):
                values[node] = _run(node, values)
                folded.append(node)
    for node in folded:
        if isinstance(values[node], torch.Tensor) and any(user not in values for user in node.users):
            constant = parts.add_constant(values[node], node.meta["val"], _kept_meta(node))
            node.replace_all_uses_with(constant, delete_user_cb=lambda user: user not in values)
            values[constant] = values[node]
    _choose_known_branches(parts.graph, values)


def _choose_known_branches(graph: Graph, values: dict[Node, Any]) -> None:
    """`where` with a condition that is true, or false, everywhere is one of its operands."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.where.self):
        condition = values.get(node.args[0])
        if condition is None or not (condition.all() or not condition.any()):
            continue
        chosen = node.args[1] if condition.all() else node.args[2]
        if signature(chosen.meta["val"], {}) == signature(node.meta["val"], {}):
            node.replace_all_uses_with(chosen)


def _may_fold(node: Node) -> bool:
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    results = [result for result in tree_leaves(node.meta["val"]) if result is not None]
    if not all(isinstance(r, torch.Tensor) and all(isinstance(size, int) for size in r.shape) for r in results):
        return False
    inputs = sum(_nbytes(n.meta["val"]) for n in node.all_input_nodes)
    return sum(_nbytes(result) for result in results) <= inputs + _ALLOWED_GROWTH


def _run(node: Node, values: dict[Node, Any]) -> Any:
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: values[n])
    result = node.target(*args, **kwargs)
    return _dense(result) if isinstance(result, torch.Tensor) else result


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return tensor.detach() if channels_last else tensor.detach().contiguous()


def _nbytes(val: Any) -> int:
    return sum(v.numel() * v.element_size() for v in tree_leaves(val) if isinstance(v, torch.Tensor))


def _kept_meta(node: Node) -> dict[str, Any]:
    return {key: value for key, value in node.meta.items() if key != "val"}
