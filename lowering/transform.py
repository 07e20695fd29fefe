"""User passes over programs: run each, and keep the program's signature true to its graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import GraphModule
from torch.fx.passes.infra.pass_base import PassResult
from torch.fx.passes.infra.pass_manager import PassManager

from .config import Pass
from .delegation.graph_copy import copy_program
from .errors import LoweringError, did_you_mean
from .uncompiled import uncompiled_program


def transform_all(
    programs: Mapping[str, ExportedProgram], passes: Sequence[Pass] | Mapping[str, Sequence[Pass]] | PassManager
) -> dict[str, ExportedProgram]:
    """Run `passes` over all programs, or, given a mapping, each method's passes over its program."""
    if not isinstance(passes, Mapping):
        return {name: transform(program, passes) for name, program in programs.items()}
    for name in passes:
        if name not in programs:
            near = did_you_mean(name, programs)
            raise LoweringError(f"passes are given for method {name!r}, which does not exist{near}")
    return {name: transform(program, passes.get(name, ())) for name, program in programs.items()}


def transform(program: ExportedProgram, passes: Sequence[Pass] | PassManager) -> ExportedProgram:
    """The program after `passes`, in order; `program` itself stays as it is."""
    in_order = [passes] if isinstance(passes, PassManager) else passes
    if not in_order:
        return program
    program = copy_program(program)
    module = program.graph_module
    for each in in_order:
        result = each(module)
        module = result.graph_module if isinstance(result, PassResult) else result if result is not None else module
        if not isinstance(module, GraphModule):
            raise LoweringError(f"pass {each!r} returned {type(module).__name__}, not a GraphModule or a PassResult")
    return with_graph(program, module)


def with_graph(program: ExportedProgram, module: GraphModule) -> ExportedProgram:
    """`program` with another graph, whose inputs and outputs are the same in number and order."""
    return uncompiled_program(
        root=module,
        graph=module.graph,
        graph_signature=_renamed_signature(program.graph_signature, module),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _renamed_signature(signature: ExportGraphSignature, module: GraphModule) -> ExportGraphSignature:
    inputs = module.graph.find_nodes(op="placeholder")
    outputs = module.graph.output_node().args[0]
    if len(inputs) != len(signature.input_specs) or len(outputs) != len(signature.output_specs):
        raise LoweringError(
            f"a pass changed the method's signature: {len(signature.input_specs)} inputs and "
            f"{len(signature.output_specs)} outputs became {len(inputs)} and {len(outputs)}",
            remedies=["keep placeholders and outputs in number and order; give unused inputs no users"],
        )

    def renamed(spec, value):
        if isinstance(value, torch.fx.Node) and hasattr(spec.arg, "name"):
            return dataclasses.replace(spec, arg=dataclasses.replace(spec.arg, name=value.name))
        return spec

    # A buffer's or input's mutation names its target by FQN or by placeholder; placeholders may be renamed too.
    new_names = {
        spec.arg.name: node.name for spec, node in zip(signature.input_specs, inputs) if hasattr(spec.arg, "name")
    }
    output_specs = [
        dataclasses.replace(spec, target=new_names.get(spec.target, spec.target))
        for spec in map(renamed, signature.output_specs, outputs)
    ]
    return ExportGraphSignature(list(map(renamed, signature.input_specs, inputs)), output_specs)
