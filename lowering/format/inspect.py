"""What a .pte file holds, as data and as text for people: the content of `build inspect`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import schema
from .check import tensor_nbytes
from .program import ProgramFile
from .schema import BlobLocation, Dynamism, Location, ScalarType


_CONTROL_FLOW = (schema.MoveCall, schema.JumpFalseCall, schema.FreeCall)


def describe(program_file: ProgramFile, *, as_json: bool = False) -> str:
    """A readable account of a program: methods, operators, delegates, memory, constants, sizes."""
    summary = summarize(program_file)
    if as_json:
        return json.dumps(summary, indent=2) + "\n"
    sections = [_overview(summary)]
    sections += [_method(method) for method in summary["methods"]]
    if summary["named_data"]:
        rows = [(entry["key"], _size(entry["bytes"])) for entry in summary["named_data"]]
        sections.append(_table("named data", ("key", "bytes"), rows))
    if summary["segments"]:
        rows = [(s["index"], s["content"], s["offset"], _size(s["bytes"])) for s in summary["segments"]]
        sections.append(_table("segments", ("", "content", "offset", "bytes"), rows))
    return "\n\n".join(sections) + "\n"


def summarize(program_file: ProgramFile) -> dict[str, Any]:
    """The same account as plain data, ready for JSON."""
    program = program_file.program
    sizes = [segment.size for segment in program_file.segments]
    named = [{"key": entry.key, "bytes": sizes[entry.segment_index]} for entry in program.named_data or ()]
    segments = [
        {"index": index, "content": content, "offset": segment.offset, "bytes": segment.size}
        for index, (segment, content) in enumerate(zip(program_file.segments, segment_contents(program_file)))
    ]
    return {
        "version": program.version,
        "methods": [_method_summary(plan, program_file) for plan in program.execution_plan],
        "constants": _entries(program.constant_segment),
        "initial_state": sum(_entries(table) for table in program.mutable_data_segments or ()),
        "named_data": named,
        "segments": segments,
        "segment_bytes": sum(sizes),
    }


def _entries(table: schema.SubsegmentOffsets | None) -> int:
    return max(len(table.offsets) - 1, 0) if table else 0


def segment_contents(program_file: ProgramFile) -> list[str]:
    """What each segment is for, by its index."""
    program = program_file.program
    contents = ["unused"] * len(program_file.segments)

    def note(index: int, content: str) -> None:
        if index < len(contents):
            contents[index] = content if contents[index] in ("unused", content) else f"{contents[index]}, {content}"

    if program.constant_segment and _entries(program.constant_segment):
        note(program.constant_segment.segment_index, "constants")
    for table in program.mutable_data_segments or ():
        note(table.segment_index, "initial state")
    for plan in program.execution_plan:
        for delegate in plan.delegates:
            if delegate.processed.location == BlobLocation.SEGMENT:
                note(delegate.processed.index, f"blob for {delegate.id}")
    for entry in program.named_data or ():
        note(entry.segment_index, "named data")
    return contents


def _method_summary(plan: schema.ExecutionPlan, program_file: ProgramFile) -> dict[str, Any]:
    instructions = [instruction for chain in plan.chains for instruction in chain.instructions]
    calls = Counter(i.op_index for i in instructions if isinstance(i, schema.KernelCall))
    delegate_calls = Counter(i.delegate_index for i in instructions if isinstance(i, schema.DelegateCall))
    others = Counter(type(i).__name__ for i in instructions if isinstance(i, _CONTROL_FLOW))
    operators = {str(plan.operators[index]): count for index, count in calls.items()}
    return {
        "name": plan.name,
        "inputs": [_value(plan.values[index]) for index in plan.inputs],
        "outputs": [_value(plan.values[index]) for index in plan.outputs],
        "instructions": len(instructions),
        "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        "control_flow": dict(sorted(others.items())),
        "delegates": [
            {
                "id": delegate.id,
                "calls": delegate_calls[index],
                "bytes": len(program_file.delegate_blob(delegate)),
                "compile_specs": {spec.key: _text(bytes(spec.value)) for spec in delegate.compile_specs or ()},
            }
            for index, delegate in enumerate(plan.delegates)
        ],
        "memory": {str(index): size for index, size in enumerate(plan.non_const_buffer_sizes) if index},
        "constants": _constants(plan),
        "state": [_value(value) for value in plan.values if _is_state(value)],
    }


def _is_state(value: schema.Value) -> bool:
    return isinstance(value, schema.Tensor) and value.data_buffer_idx > 0 and value.allocation_info is not None


def _constants(plan: schema.ExecutionPlan) -> dict[str, int]:
    """How many constants a method uses, and how many bytes they take."""
    sizes = {
        value.data_buffer_idx: tensor_nbytes(value)
        for value in plan.values
        if isinstance(value, schema.Tensor) and value.data_buffer_idx and value.allocation_info is None
    }
    return {"count": len(sizes), "bytes": sum(sizes.values())}


def _value(value: schema.Value) -> dict[str, Any]:
    if isinstance(value, schema.Tensor):
        described: dict[str, Any] = {
            "type": "tensor",
            "dtype": ScalarType(value.scalar_type).name.lower(),
            "shape": list(value.sizes),
            "dynamic": value.shape_dynamism != Dynamism.STATIC,
            "bytes": tensor_nbytes(value),
            "storage": _storage(value),
        }
        if value.dim_order != tuple(range(len(value.dim_order))):
            described["dim_order"] = list(value.dim_order)
        return described
    if isinstance(value, (schema.Int, schema.Bool, schema.Double, schema.Text)):
        return {"type": type(value).__name__.lower(), "value": value.value}
    return {"type": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).lower()}


def _storage(tensor: schema.Tensor) -> str:
    extra = tensor.extra_tensor_info
    if extra is not None and extra.location == Location.EXTERNAL:
        return f"external {extra.fully_qualified_name!r}"
    if tensor.allocation_info is not None:
        place = f"memory {tensor.allocation_info.memory_id} at {tensor.allocation_info.offset}"
        return f"{place}, initialised" if tensor.data_buffer_idx else place
    return f"constant {tensor.data_buffer_idx}" if tensor.data_buffer_idx else "the caller's"


def _text(data: bytes) -> str:
    """Bytes as text where they are printable, else in hexadecimal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and text.isprintable() else data.hex()


def _overview(summary: dict[str, Any]) -> str:
    methods = summary["methods"]
    operators = len({name for method in methods for name in method["operators"]})
    delegates = sum(len(method["delegates"]) for method in methods)
    lines = [
        f"ExecuTorch program, version {summary['version']}",
        f"  {_count(len(methods), 'method')}, {_count(operators, 'operator')}, {_count(delegates, 'delegate')}",
        f"  {_count(summary['constants'], 'constant')}, {_count(summary['initial_state'], 'initial state')}, "
        f"{_count(len(summary['named_data']), 'named datum', 'named data')}, "
        f"{_count(len(summary['segments']), 'segment')} of {_size(summary['segment_bytes'])} bytes",
    ]
    return "\n".join(lines)


def _method(method: dict[str, Any]) -> str:
    lines = [f"method {method['name']}"]
    for kind in ("inputs", "outputs", "state"):
        for index, value in enumerate(method[kind]):
            lines.append(f"  {kind.rstrip('s') if kind != 'state' else kind} {index}: {_value_text(value)}")
    memory = ", ".join(f"memory {index}: {_size(size)}" for index, size in method["memory"].items()) or "none"
    lines.append(f"  memory in bytes: {memory}")
    constants = method["constants"]
    lines.append(f"  constants: {constants['count']}, {_size(constants['bytes'])} bytes")
    lines.append(f"  instructions: {method['instructions']}")
    rows = [*method["operators"].items(), *((f"({name})", n) for name, n in method["control_flow"].items())]
    if rows:
        lines.append(_table("  operators", ("operator", "calls"), rows, indent=4))
    if method["delegates"]:
        rows = [
            (d["id"], d["calls"], _size(d["bytes"]), " ".join(f"{k}={v[:40]}" for k, v in d["compile_specs"].items()))
            for d in method["delegates"]
        ]
        lines.append(_table("  delegates", ("backend", "calls", "bytes", "compile specs"), rows, indent=4))
    return "\n".join(lines)


def _value_text(value: dict[str, Any]) -> str:
    if value["type"] != "tensor":
        return f"{value['type']} {value['value']!r}" if "value" in value else value["type"]
    shape = ("up to " if value["dynamic"] else "") + "[" + ", ".join(map(str, value["shape"])) + "]"
    order = f", dim order {value['dim_order']}" if "dim_order" in value else ""
    return f"{value['dtype']} {shape}{order}, {_size(value['bytes'])} bytes, {value['storage']}"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], indent: int = 2) -> str:
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [title]
    for row in cells:
        # Text to the left, numbers to the right.
        padded = [c.rjust(w) if c.replace(",", "").isdigit() else c.ljust(w) for c, w in zip(row, widths)]
        lines.append((" " * indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count:,}"


def _count(count: int, singular: str, plural: str | None = None) -> str:
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
