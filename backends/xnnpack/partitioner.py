"""Chooses what XNNPACK takes: every operator that its table can encode."""

from __future__ import annotations

from rules_executorch.lowering.delegation.backend import DelegationSpec, Partitioner, PartitionResult
from rules_executorch.lowering.delegation.partitioning import partition_supported
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from .convert import LIFTED, Converter
from .graph import Unsupported
from .preprocess import BACKEND_ID

_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


class XnnpackPartitioner(Partitioner):
    """Takes all that XNNPACK can compute, in as few partitions as possible."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        converter = Converter(dict.fromkeys(_constants(exported_program), _no_data))

        def supports(node: Node) -> bool:
            try:
                converter.convert(node)
            except Unsupported:
                return False
            return True

        return partition_supported(exported_program, supports, DelegationSpec(BACKEND_ID))


def _constants(program: ExportedProgram) -> list[Node]:
    """Placeholders of parameters, buffers and constants that the program does not write to."""
    signature = program.graph_signature
    written = {spec.target for spec in signature.output_specs if spec.kind in _MUTATIONS}
    placeholders = program.graph.find_nodes(op="placeholder")
    return [
        node
        for node, spec in zip(placeholders, signature.input_specs)
        if spec.kind in LIFTED and spec.target not in written
    ]


def _no_data():
    raise AssertionError("a partitioner sees constants without their data")
