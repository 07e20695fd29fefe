"""Chooses what XNNPACK takes: every operator that its table can encode, in partitions that are worth it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from rules_executorch.lowering.delegation.backend import LEFT_BEHIND, DelegationSpec, Partitioner, PartitionResult
from rules_executorch.lowering.delegation.partitioning import partition_supported
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from .convert import LIFTED, Converter
from .cost import is_worth
from .graph import Unsupported, Value
from .operators.quantized import belongs
from .per_op import separate
from .precision import Precision, precision_of
from .preprocess import BACKEND_ID

aten = torch.ops.aten

_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)

# Operators that XNNPACK computes better whole than through what they are made of.
_WHOLE = [
    aten.hardsigmoid.default,
    aten.hardswish.default,
    aten.matmul.default,
    aten.pad.default,
    aten.prelu.default,
    aten.scaled_dot_product_attention.default,
    aten.upsample_bilinear2d.vec,
]


class XnnpackPartitioner(Partitioner):
    """Takes all that XNNPACK can compute, in as few partitions as possible.

    `per_op` makes a partition of every node, for tests and for bisecting. Partitions of less than
    `min_nodes` nodes, and, with `cost_rule`, those that cost.py finds not worth their border, are
    left to the CPU kernels. Of `precisions`, all by default, only operators that compute in these are
    taken: with FP32, say, quantized ones are left to kernels of their own. Why a node is left behind is in its
    `meta["left_behind"]`.
    """

    def __init__(
        self,
        *,
        per_op: bool = False,
        min_nodes: int = 1,
        cost_rule: bool = True,
        precisions: Collection[Precision] = tuple(Precision),
    ):
        self.per_op = per_op
        self.min_nodes = min_nodes
        self.cost_rule = cost_rule
        self.precisions = frozenset(precisions)

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Operators to keep whole where XNNPACK takes them."""
        names = {node.name for node in _constants(exported_program)}  # the edge program's nodes are not there yet
        check = _Check(lambda node: _no_data if node.name in names else None)
        present = {node.target for node in exported_program.graph.nodes if node.op == "call_function"}
        affine = [op for op in present if isinstance(op, torch._ops.OpOverload) and op.namespace == "torchao"]
        return [*_WHOLE, *affine], lambda node: self._excluded(node) is None and check(node) is None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        check = _Check(dict.fromkeys(_constants(exported_program), _no_data).get)

        def supports(node: Node) -> bool:
            reason = self._excluded(node) or check(node)
            if reason is not None:
                node.meta[LEFT_BEHIND] = reason
            return reason is None

        def worth(group: Sequence[Node]) -> bool:
            if len(group) < self.min_nodes:
                reason = f"its partition has less than {self.min_nodes} nodes"
            elif self.cost_rule and not is_worth(group):
                reason = "its partition gains less than its border costs"
            else:
                return True
            for node in group:
                node.meta[LEFT_BEHIND] = reason
            return False

        result = partition_supported(
            exported_program, supports, DelegationSpec(BACKEND_ID), worth=worth, belongs=belongs, share_constants=True
        )  # fmt: skip
        return separate(result) if self.per_op else result

    def _excluded(self, node: Node) -> str | None:
        """Why a node is none of those that are asked for."""
        if len(self.precisions) == len(Precision):
            return None
        precision = precision_of(node)
        if precision in self.precisions:
            return None
        return f"it computes with {precision.value}, which are not to be taken"


class _Check:
    """Why XNNPACK does not take a node, or None where it does: preprocess's own conversion, tried."""

    def __init__(self, data_of: Callable[[Node], Callable[[], torch.Tensor] | None]):
        self._converter = Converter(data_of)

    def __call__(self, node: Node) -> str | None:
        try:
            result = self._converter.convert(node)
        except Unsupported as reason:
            return str(reason)
        if _is_known_at_build_time(result):
            self._converter.values[node] = result
        return None


def _is_known_at_build_time(result: Any) -> bool:
    """Whether a node's value counts as a constant, or as scales to be chosen, for the nodes after it.

    Others may come from another partition, so nothing but their sizes and type is to be relied on.
    """
    values = result if isinstance(result, tuple) else (result,)
    return all(v is not None and (v.constant is not None or _is_scale(v)) for v in values)


def _is_scale(value: Value) -> bool:
    return value.quantization is not None and value.quantization.is_dynamic


def _constants(program: ExportedProgram) -> list[Node]:
    """The placeholders of parameters, buffers and constants that the program does not write to."""
    signature = program.graph_signature
    written = {spec.target for spec in signature.output_specs if spec.kind in _MUTATIONS}
    specs = zip(program.graph.find_nodes(op="placeholder"), signature.input_specs)
    return [node for node, spec in specs if spec.kind in LIFTED and spec.target not in written]


def _no_data() -> torch.Tensor:
    raise AssertionError("a partitioner sees constants without their data")
