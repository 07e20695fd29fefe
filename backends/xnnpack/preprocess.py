"""The backend's compiler: a partition → the delegate's blob, and its constants as named data."""

from __future__ import annotations

from collections.abc import Sequence

from rules_executorch.lowering.delegation.backend import BackendDetails, CompileSpec, PreprocessResult
from rules_executorch.lowering.delegation.named_data import NamedDataStore
from rules_executorch.lowering.errors import LoweringError
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import bound_sympy

from .convert import convert_program
from .finish import finish
from .fusion import fuse_activations
from .graph import Graph, Size, Unsupported
from .layout import assign_layouts
from .quantization import quantize
from .serialize import serialize
from .simplify import reshape_unit_transposes, simplify

BACKEND_ID = "XnnpackBackend"


class XnnpackBackend(BackendDetails):
    """Compiles for the XNNPACK delegate of ExecuTorch's runtime. It has no options."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compile one partition.

        Raises:
            LoweringError: an operator that XNNPACK does not have, or an option.
        """
        for spec in compile_specs:
            raise LoweringError(f"{BACKEND_ID} has no option {spec.key!r}", remedies=["leave compile_specs empty"])
        try:
            graph = convert_program(edge_program)
        except Unsupported as reason:
            raise LoweringError(
                f"{BACKEND_ID} does not take {reason.node.target}: {reason}",
                node=reason.node,
                remedies=[
                    "delegate with XnnpackPartitioner instead of the whole graph: this node is then left to the "
                    "CPU kernels",
                    "write the model with operators that XNNPACK has (backends/xnnpack/README.md)",
                ],
            ) from None

        def bound(size: Size) -> int:
            """The largest that a size can be; a hint, as the delegate goes by the sizes that it is given."""
            if isinstance(size, int):
                return size
            upper = bound_sympy(size.node.expr, edge_program.range_constraints).upper
            return int(upper) if upper.is_finite and upper < 2**31 else 1

        store = NamedDataStore()
        blob = serialize(optimized(graph), bound, store)
        handles = {node.debug_handle: (node.debug_handle,) for node in graph.nodes}
        return PreprocessResult(blob, handles, store.output())


def optimized(graph: Graph) -> Graph:
    """The graph as it is written: the same function, in fewer nodes, every layout decided."""
    graph = fuse_activations(simplify(graph))
    for step in (quantize, assign_layouts, reshape_unit_transposes):
        changed = step(graph)
        graph = graph if changed is graph else simplify(changed)
    return finish(graph)
