"""ExportedProgram as torch.export gives it → edge program, which the target runtime can run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

from ..errors import LoweringError
from ..operators import OperatorSet, stock
from .aliasing import Handle, UnsupportedAliasing
from .batch_norm import fuse_batch_norm
from .chains import collapse_chains
from .conversion import Context, Conversion
from .folding import fold_constants
from .layout import assign_layouts
from .linear import fuse_linear
from .parts import EdgeParts, remove_dead_code

_MUTATIONS = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


def to_edge_program(
    program: ExportedProgram,
    *,
    preserve_ops: Sequence[OpOverload] = (),
    keep: Callable[[Node], bool] | None = None,
    operators: OperatorSet = stock,
) -> ExportedProgram:
    """`program` as an edge program; `program` itself is left as it is.

    An edge program is functional. Views are `*_copy` operators, numbers stay numbers, and every
    operator is one that `operators` has a kernel for, as far as it can be decomposed to such.
    `preserve_ops` are kept whole where `keep`, given the node, says so (everywhere without it).
    What has no kernel in the end is left for a backend to take; `verify` refuses the rest.
    """
    kept = frozenset(preserve_ops)
    try:
        return _convert(program, kept, keep, operators)
    except UnsupportedAliasing as error:
        unsupported = error
    try:
        # PyTorch's own functionalisation knows all aliases; it traces the whole program again.
        return _convert(program.run_decompositions({}), kept, keep, operators)
    except UnsupportedAliasing:
        raise LoweringError(
            f"the program writes to memory, or shares it, in a way that has no functional form: {unsupported}",
            node=unsupported.node,
            remedies=["write the model without the in-place operator, or on a clone of the tensor"],
        ) from None


def _convert(
    program: ExportedProgram,
    preserve_ops: frozenset[OpOverload],
    keep: Callable[[Node], bool] | None,
    operators: OperatorSet,
) -> ExportedProgram:
    fake_mode = _fake_mode(program)
    handles = itertools.count(1 + max((node.meta.get("debug_handle") or 0 for node in program.graph.nodes), default=0))
    conversion = Conversion(Context(operators, preserve_ops, keep, fake_mode, handles), program.graph_module)
    results = conversion.run(program.graph)
    written = _written_placeholders(program.graph_signature, conversion)
    conversion.finish((*(handle for handle, _ in written), *results))
    parts = EdgeParts(
        conversion.graph,
        conversion.modules,
        input_specs=list(program.graph_signature.input_specs),
        output_specs=[*(spec for _, spec in written), *program.graph_signature.output_specs],
        state_dict=dict(program.state_dict),
        constants=dict(program.constants),
    )
    remove_dead_code(parts)
    fuse_batch_norm(parts, fake_mode)
    assign_layouts(parts.graph, parts.modules, fake_mode, _written_results(parts))
    collapse_chains(parts.graph)
    fuse_linear(parts.graph)
    fold_constants(parts)
    remove_dead_code(parts)
    return parts.program(program)


def _fake_mode(program: ExportedProgram) -> FakeTensorMode:
    for node in program.graph.nodes:
        for value in tree_leaves(node.meta.get("val")):
            if isinstance(value, FakeTensor):
                return value.fake_mode
    return FakeTensorMode(shape_env=ShapeEnv())


def _written_placeholders(signature: ExportGraphSignature, conversion: Conversion) -> list[tuple[Handle, OutputSpec]]:
    """The inputs and buffers that the program writes to, with what its signature is to say of each."""
    written = []
    for spec in signature.input_specs:
        handle = conversion.placeholders.get(spec.arg.name) if isinstance(spec.arg, TensorArgument) else None
        if handle is not None and handle.written:
            target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
            written.append((handle, OutputSpec(_MUTATIONS[spec.kind], TensorArgument(name=""), target)))
    return written


def _written_results(parts: EdgeParts) -> dict[int, str]:
    """Positions of results that are written to placeholders, and the placeholders' names."""
    placeholders = {
        spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target: spec.arg.name
        for spec in parts.input_specs
        if isinstance(spec.arg, TensorArgument)
    }
    return {
        position: placeholders[spec.target]
        for position, spec in enumerate(parts.output_specs)
        if spec.kind in _MUTATIONS.values()
    }
