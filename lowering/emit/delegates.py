"""Calls of delegates."""

from __future__ import annotations

from typing import Any

from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.fx import Node

from ..delegation.lowered_module import called_module
from ..errors import LoweringError
from ..format import schema
from ..format.schema import BlobLocation
from .emitter import Emitter, Handler
from .kernels import result_owners


def emit_delegate(emitter: Emitter, node: Node) -> tuple[int, ...]:
    """`executorch_call_delegate(lowered_module, *inputs)`: inputs in call order, then outputs."""
    module = called_module(node)
    blob = emitter.pools.blobs.add(bytes(module.processed_bytes))
    if module.named_data_store_output is not None:
        try:
            emitter.pools.named_data.merge_named_data_store(module.named_data_store_output)
        except ValueError as error:
            raise LoweringError(f"delegates of {module.backend_id} disagree: {error}", node=node) from None
    specs = tuple(schema.CompileSpec(spec.key, bytes(spec.value)) for spec in module.compile_specs)
    inputs = [emitter.value(argument) for argument in node.args[1:]]
    owners = result_owners(node)
    outputs = tuple(emitter.result(value, owners.get(i, node)) for i, value in enumerate(node.meta["val"]))
    # The blob's index is among all blobs; where those lie is decided when the file is laid out.
    place = schema.BackendDelegateDataReference(BlobLocation.SEGMENT, blob)
    emitter.code.delegate(schema.BackendDelegate(module.backend_id, place, specs), [*inputs, *outputs])
    return outputs


DELEGATE_HANDLERS: dict[Any, Handler] = {executorch_call_delegate: emit_delegate}
