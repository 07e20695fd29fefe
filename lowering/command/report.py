"""What a build needs to know of a program that it made: the report of `lower`."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..delegation.delegation_info import get_delegation_info
from ..recipe import ExportSession


def report(session: ExportSession, file_bytes: int) -> dict[str, Any]:
    """Plain data, the same for the same program, whose file has `file_bytes`.

    `delegates` are the ids of the backends that the program calls, `operators` the kernels that it calls,
    as the runtime's registry spells them: both must be linked. `methods` says the same per method, with
    the bytes of planned memory by memory id, and beside what is planned for activations the least that any
    plan needs; `delegation` how many nodes of a method went to delegates, and for each operator how often
    it did and how often it did not.
    """
    plans = session.get_executorch_program().program_file.program.execution_plan
    manager = session.get_executorch_program_manager()
    memory = session.get_executorch_program().memory
    return {
        "file_bytes": file_bytes,
        "delegates": sorted({delegate.id for plan in plans for delegate in plan.delegates}),
        "operators": sorted({str(operator) for plan in plans for operator in plan.operators}),
        "methods": {
            plan.name: {
                "delegates": [delegate.id for delegate in plan.delegates],
                "operators": sorted(map(str, plan.operators)),
                "instructions": sum(len(chain.instructions) for chain in plan.chains),
                "planned_bytes": list(plan.non_const_buffer_sizes[1:]),
                **({"memory": dataclasses.asdict(memory[plan.name])} if plan.name in memory else {}),
            }
            for plan in plans
        },
        "delegation": {
            name: dataclasses.asdict(get_delegation_info(manager.exported_program(name)))
            for name in sorted(manager.methods)
        },
    }
