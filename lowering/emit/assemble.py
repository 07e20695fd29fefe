"""An emitted method with its memory planned: the plan that goes into the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import Node

from ..errors import source_line
from ..format import schema
from ..format.schema import Dynamism, Location
from ..memory.block import Block
from ..memory.lifetimes import lifetimes
from ..memory.plan import place
from ..memory.reuse import Overwrite, reuse_storages
from .emitter import Emitter
from .method import EmittedMethod
from .values import Place, Storage, TensorValue

ACTIVATIONS = 1
"""The memory of planned tensors. Memory 0 is the format's own."""
STATE = 2
"""The memory of mutable buffers. Apart, because methods may run in the same memories."""

# Vectorised kernels of delegates may read, not write, so far beyond a tensor's end.
DELEGATE_PADDING = 64


@dataclass(frozen=True)
class MemoryReport:
    """What a method needs, in bytes: as planned, at least by any plan, and for state (up to its end)."""

    planned: int
    lower_bound: int
    state: int


def assemble(
    method: EmittedMethod, containers: schema.ContainerMetadata | None
) -> tuple[schema.ExecutionPlan, MemoryReport]:
    """Plan a method's memory and make its ExecutionPlan."""
    emitter = method.emitter
    offsets, report = _plan_memory(method)
    padding = DELEGATE_PADDING if emitter.code.delegates else 0
    sizes = [0, report.planned + padding] + ([report.state + padding] if report.state else [])
    values = tuple(
        _tensor(value, emitter, offsets) if isinstance(value, TensorValue) else value for value in emitter.values.values
    )
    plan = schema.ExecutionPlan(
        name=emitter.method,
        container_meta_type=containers,
        values=values,
        inputs=method.inputs,
        outputs=method.outputs,
        chains=(schema.Chain(instructions=tuple(emitter.code.instructions), stacktrace=_stacktrace(emitter)),),
        operators=tuple(emitter.code.operators),
        delegates=tuple(emitter.code.delegates),
        non_const_buffer_sizes=tuple(sizes),
    )
    return plan, report


def _plan_memory(method: EmittedMethod) -> tuple[dict[Storage, int], MemoryReport]:
    """Where each planned storage lies."""
    emitter = method.emitter
    storages = _planned_storages(emitter)
    number = {storage: index for index, storage in enumerate(storages)}
    touched = _touched(emitter, number)
    lives = lifetimes(
        touched,
        len(storages),
        loops=emitter.code.loops,
        from_start=_numbers(emitter, method.inputs, number),
        to_end=_numbers(emitter, method.outputs, number),
    )
    sizes = [storage.nbytes for storage in storages]
    shares = reuse_storages(lives, sizes, _overwrites(emitter, number))
    blocks = _merged(lives, sizes, shares)
    placement = place(list(blocks.values()), emitter.config.memory_of(emitter.method).alignment)
    offset_of = dict(zip(blocks, placement.offsets))
    offsets = {storage: offset_of.get(shares[index], 0) for storage, index in number.items()}
    return offsets, MemoryReport(placement.size, placement.lower_bound, _state_end(emitter))


def _planned_storages(emitter: Emitter) -> list[Storage]:
    tensors = (value for value in emitter.values.values if isinstance(value, TensorValue))
    return list(dict.fromkeys(t.storage for t in tensors if t.storage.place is Place.PLANNED))


def _numbers(emitter: Emitter, indices: Sequence[int], number: dict[Storage, int]) -> list[int]:
    """The planned storages of some values; lists of tensors have those of their items."""
    found = []
    for index in indices:
        value = emitter.values.values[index] if index >= 0 else None
        if isinstance(value, TensorValue) and value.storage in number:
            found.append(number[value.storage])
        elif isinstance(value, (schema.TensorList, schema.OptionalTensorList)):
            found.extend(_numbers(emitter, value.items, number))
    return found


def _touched(emitter: Emitter, number: dict[Storage, int]) -> list[list[int]]:
    touched = []
    for instruction in emitter.code.instructions:
        if isinstance(instruction, (schema.KernelCall, schema.DelegateCall)):
            touched.append(_numbers(emitter, instruction.args, number))
        elif isinstance(instruction, schema.JumpFalseCall):
            touched.append(_numbers(emitter, [instruction.cond_value_index], number))
        else:
            touched.append([])
    return touched


def _overwrites(emitter: Emitter, number: dict[Storage, int]) -> list[Overwrite]:
    """Of what instructions may overwrite, that which is a planned storage from its first byte on."""
    found = []
    for overwrite in emitter.code.overwrites:
        result, operand = emitter.values.tensor(overwrite.result), emitter.values.tensor(overwrite.operand)
        if result.storage in number and operand.storage in number and result.offset == operand.offset == 0:
            found.append(Overwrite(overwrite.instruction, number[result.storage], number[operand.storage]))
    return found


def _merged(lives: Sequence[tuple[int, int] | None], sizes: Sequence[int], shares: Sequence[int]) -> dict[int, Block]:
    """The block of each storage that others share, over all their lives."""
    blocks: dict[int, Block] = {}
    for index, life in enumerate(lives):
        if life is None:
            continue
        home = shares[index]
        first, last = life
        if home in blocks:
            first, last = min(first, blocks[home].first), max(last, blocks[home].last)
        blocks[home] = Block(sizes[home], first, last)
    return blocks


def _state_end(emitter: Emitter) -> int:
    slots = emitter.pools.state.slots
    tensors = (value for value in emitter.values.values if isinstance(value, TensorValue))
    states = (slots[t.storage.index] for t in tensors if t.storage.place is Place.STATE)
    return max((slot.offset + slot.nbytes for slot in states), default=0)


def _tensor(tensor: TensorValue, emitter: Emitter, offsets: dict[Storage, int]) -> schema.Tensor:
    storage = tensor.storage
    buffer, place_, extra = 0, None, None
    if not tensor.rewired:
        if storage.place is Place.PLANNED:
            place_ = schema.allocation(ACTIVATIONS, offsets[storage] + tensor.offset)
        elif storage.place is Place.STATE:
            slot = emitter.pools.state.slots[storage.index]
            place_ = schema.allocation(STATE, slot.offset + tensor.offset)
            buffer = tensor.initial
            if emitter.config.emit_mutable_buffer_names:
                extra = schema.ExtraTensorInfo(fully_qualified_name=storage.name)
        elif storage.place is Place.CONSTANT:
            buffer = emitter.pools.constants.inside(storage.index, tensor.offset)
        elif storage.place is Place.EXTERNAL:
            extra = schema.ExtraTensorInfo(fully_qualified_name=storage.name, location=Location.EXTERNAL)
    return schema.Tensor(
        scalar_type=int(tensor.scalar_type),
        sizes=tensor.sizes,
        dim_order=tensor.dim_order,
        data_buffer_idx=buffer,
        allocation_info=place_,
        shape_dynamism=int(Dynamism.BOUNDED if tensor.dynamic else Dynamism.STATIC),
        extra_tensor_info=extra,
    )


def _stacktrace(emitter: Emitter) -> tuple[schema.FrameList, ...] | None:
    if not emitter.config.emit_stacktrace:
        return None
    return tuple(schema.FrameList(_frames(node)) for node in emitter.code.nodes)


def _frames(node: Node | None) -> tuple[schema.Frame, ...]:
    source = source_line(node) if node is not None else None
    if source is None:
        return ()
    filename, line, *code = source.split(":", 2)
    return (schema.Frame(filename=filename, lineno=int(line), name="", context="".join(code).strip()),)
