"""The specification of edge programs, as a check: what every stage after to_edge may rely on."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ..errors import LoweringError
from ..operators import llm, OperatorSet, quantized, refusal, stock
from .schemas import returns_alias

# Functions on sizes, each with the runtime's kernel for it.
SIZE_KERNELS = {
    operator.add: "executorch_prim::add.Scalar",
    operator.sub: "executorch_prim::sub.Scalar",
    operator.mul: "executorch_prim::mul.Scalar",
    operator.floordiv: "executorch_prim::floordiv.Scalar",
    operator.truediv: "executorch_prim::truediv.Scalar",
    operator.mod: "executorch_prim::mod.Scalar",
    operator.neg: "executorch_prim::neg.Scalar",
    operator.eq: "executorch_prim::eq.Scalar",
    operator.gt: "executorch_prim::gt.Scalar",
    operator.lt: "executorch_prim::lt.Scalar",
    operator.ge: "executorch_prim::ge.Scalar",
    operator.le: "executorch_prim::le.Scalar",
    round: "executorch_prim::round.Scalar",
    math.ceil: "executorch_prim::ceil.Scalar",
    math.trunc: "executorch_prim::trunc.Scalar",
    torch.sym_float: "executorch_prim::sym_float.Scalar",
    torch.sym_int: "executorch_prim::sym_int.Scalar",
    torch.sym_max: "executorch_prim::sym_max.Scalar",
    torch.sym_min: "executorch_prim::sym_min.Scalar",
    torch.sym_not: "executorch_prim::sym_not.Scalar",
    torch.sym_ite: "executorch_prim::sym_ite.Scalar",
}

# What the emitter turns into instructions, and the call of a delegate.
HIGHER_ORDER_OPERATORS = ("cond", "while_loop", "map_impl", "scan", "executorch_call_delegate")


def verify_edge_program(
    program: ExportedProgram, operators: OperatorSet = stock, *, allowed: Collection[OpOverload] = ()
) -> None:
    """Check that `program`, bodies of loops and branches included, is an edge program that can be emitted.

    Every node is a placeholder, a body or delegate, `getitem`, a function on sizes, a higher-order
    operator that the emitter knows, or a functional operator that `operators` has a kernel for;
    `allowed` operators are taken on trust. Every value has its metadata in `meta["val"]`.

    Raises:
        LoweringError: naming the first node that is none of this, its source line, and what to do.
    """
    for module in [program.graph_module, *_bodies(program.graph_module)]:
        for node in module.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output", "call_function"):
                raise LoweringError(f"an edge program has no {node.op} nodes", node=node)
            if node.op == "call_function":
                _verify_call(node, operators, allowed)


def _bodies(module: GraphModule) -> list[GraphModule]:
    bodies = []
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target, None)
        if isinstance(value, GraphModule):
            bodies += [value, *_bodies(value)]
    return bodies


def _verify_call(node: Node, operators: OperatorSet, allowed: Collection[OpOverload]) -> None:
    target = node.target
    if "val" not in node.meta:
        raise LoweringError('a node of an edge program has its value\'s metadata in meta["val"]', node=node)
    if target is operator.getitem or target in allowed:
        return
    if isinstance(target, HigherOrderOperator):
        if target.__name__ not in HIGHER_ORDER_OPERATORS:
            known = ", ".join(HIGHER_ORDER_OPERATORS)
            raise LoweringError(f"{target.__name__} cannot be emitted; of its kind, {known} can", node=node)
    elif isinstance(target, OpOverload):
        _verify_operator(node, target, operators)
    elif SIZE_KERNELS.get(target) not in operators:
        name = getattr(target, "__name__", target)
        raise LoweringError(
            f"the target runtime cannot compute {name} of sizes",
            node=node,
            remedies=["compute it with +, -, *, //, %, comparisons, min and max", "make the size static"],
        )


def _verify_operator(node: Node, op: OpOverload, operators: OperatorSet) -> None:
    if op._schema.is_mutable or returns_alias(op):
        raise LoweringError(
            f"an edge program is functional, but {op} writes to its argument or shares storage with it",
            node=node,
            remedies=["convert the program with to_edge"],
        )
    if operators.kernel(op) is None:
        raise LoweringError(f"the target runtime has no kernel for {op}", node=node, remedies=_remedies(op, operators))
    reason = refusal(node)
    if reason is not None:
        raise LoweringError(
            f"the target runtime's kernel refuses this call of {op}: {reason}",
            node=node,
            remedies=["change the model accordingly", "delegate the node to a backend"],
        )


def _remedies(op: OpOverload, operators: OperatorSet) -> list[str]:
    near = [name for name in operators.nearest(op._schema.name) if not name.startswith("executorch_prim")]
    remedies = ["delegate the node to a backend that has the operator"]
    for name, extension in (("quantized", quantized), ("llm", llm)):
        if extension.kernel(op) is not None:
            remedies.append(
                f"link the runtime's {name} kernels, and say that the target has them: "
                f"EdgeCompileConfig(operators=stock | {name}) of rules_executorch.lowering.operators"
            )
    if near:
        remedies.append(f"write the model with what the runtime has; near in name: {', '.join(near)}")
    remedies.append("register a kernel with the runtime, and name it in the set of operators of the target")
    return remedies
