"""Edge programs that were made before, found again by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection

from torch._ops import OpOverload
from torch.export import ExportedProgram

from ..interchange.packed import pack_program, unpack_program
from ..operators import OperatorSet
from ..result_cache import Tally, current_cache


def kept_or_made(
    program: ExportedProgram,
    preserve_ops: Collection[OpOverload],
    operators: OperatorSet,
    make: Callable[[], ExportedProgram],
) -> ExportedProgram:
    """The edge program of `program`: one that was kept, else what `make` makes, which is kept.

    What is in the key besides these arguments is the origin of `program` (see Tally.origins); without one, nothing
    is kept.
    """
    tally = current_cache()
    key = _key(tally, program, preserve_ops, operators) if tally else None
    if tally is None or key is None:
        return make()
    known = {**program.state_dict, **program.constants}
    if (data := tally.cache.get(key)) is not None:
        return unpack_program(data, known)
    made = make()
    if (data := pack_program(made, known)) is not None:
        tally.cache.put(key, data)
    return made


def _key(
    tally: Tally, program: ExportedProgram, preserve_ops: Collection[OpOverload], operators: OperatorSet
) -> str | None:
    """64 hexadecimal digits; None where nothing tells what the program is.

    Values of all tensors are in it: any may be folded.
    """
    _, origin = tally.origins.get(id(program), (None, None))
    if origin is None:
        return None
    try:
        contents = {name: digest.hex() for name, (_, digest) in tally.contents(program).items()}
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None  # an object, or a tensor that is nowhere
    description = ["edge program 1", origin, sorted(map(str, preserve_ops)), sorted(operators.names), contents]
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
