"""Chooses what the reference backend takes: every operator that it can encode."""

from __future__ import annotations

from rules_executorch.lowering.delegation.backend import DelegationSpec, Partitioner, PartitionResult
from rules_executorch.lowering.delegation.partitioning import partition_supported
from torch.export import ExportedProgram
from torch.fx import Node

from .operators import is_supported
from .preprocess import BACKEND_ID


class ReferencePartitioner(Partitioner):
    """Takes all that the backend can, in as few partitions as possible, with the state that they own."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        return partition_supported(
            exported_program, is_supported, DelegationSpec(BACKEND_ID), worth=_computes, own_mutated_buffers=True
        )


def _computes(group: list[Node]) -> bool:
    """Whether a group makes a tensor: sizes alone are cheaper where they are."""
    return any(hasattr(node.meta["val"], "dtype") or isinstance(node.meta["val"], tuple) for node in group)
