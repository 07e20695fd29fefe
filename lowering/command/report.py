"""What a build needs to know of a program that it made: the report of `lower`."""

from __future__ import annotations

from typing import Any

from ..recipe import ExportSession


def report(session: ExportSession) -> dict[str, Any]:
    """Plain data, the same for the same program.

    `delegates` are the ids of the backends that the program calls, `operators` the kernels that it calls,
    as the runtime's registry spells them: both must be linked. `methods` says the same per method, with
    the bytes of planned memory, by memory id.
    """
    plans = session.get_executorch_program().program_file.program.execution_plan
    return {
        "delegates": sorted({delegate.id for plan in plans for delegate in plan.delegates}),
        "operators": sorted({str(operator) for plan in plans for operator in plan.operators}),
        "methods": {
            plan.name: {
                "delegates": [delegate.id for delegate in plan.delegates],
                "operators": sorted(map(str, plan.operators)),
                "instructions": sum(len(chain.instructions) for chain in plan.chains),
                "planned_bytes": list(plan.non_const_buffer_sizes[1:]),
            }
            for plan in plans
        },
    }
