"""Which modules of the official wheel register kernels that the unmodified runtime lacks."""

from __future__ import annotations

from ..format import schema

_BY_NAMESPACE = {
    "llama": "executorch.extension.llm.custom_ops.custom_ops",
    "quantized_decomposed": "executorch.kernels.quantized",
}


def kernel_libraries(program: schema.Program) -> list[str]:
    """The modules to import, so that the runtime of this process has the extensions' kernels that `program` calls."""
    namespaces = {op.name.partition("::")[0] for plan in program.execution_plan for op in plan.operators}
    return [module for namespace, module in _BY_NAMESPACE.items() if namespace in namespaces]
