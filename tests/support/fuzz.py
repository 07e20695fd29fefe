"""Malformed files. As a command: reads any number of them and reports what went wrong.

    python -m support.fuzz pte|ptd|pt2|edge|safetensors [COUNT [SEED]]        (in the folder tests/)
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """`count` variants of `data`."""
    chance = random.Random(seed)
    for _ in range(count):
        yield mutated(data, chance)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A variant of `data`: flipped bits, hostile numbers, moved, cut and repeated pieces."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
        _mutate(changed, chance)
    return bytes(changed)


def _mutate(data: bytearray, chance: random.Random) -> None:
    if len(data) < 16:
        return
    place = chance.randrange(len(data) - 8)
    kind = chance.randrange(6)
    if kind == 0:
        data[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[place] = chance.randrange(256)
    elif kind == 2:
        struct.pack_into("<I", data, place & ~3, chance.choice([0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, len(data)]))
    elif kind == 3:
        struct.pack_into("<I", data, place & ~3, chance.randrange(2 * len(data)))
    elif kind == 4:
        source, length = chance.randrange(len(data) - 8), chance.randrange(1, 64)
        data[place : place + length] = data[source : source + length]
    else:
        del data[chance.randrange(len(data)) :]


def _mutate_json(text: bytes, chance: random.Random) -> bytes:
    """The document with other values in some places: of the right form nowhere, or elsewhere in it."""
    document = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place: Any = document
        while True:
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], (dict, list)) or not place[key] or chance.random() < 0.1:
                break
            place = place[key]
        value = chance.choice(_HOSTILE_VALUES) if chance.random() < 0.7 else _any_value(document, chance)
        place[key] = copy.deepcopy(value)
    return json.dumps(document).encode()


_HOSTILE_VALUES = [None, True, -1, 0, 2**63, 2**70, 1e308, "", "x" * 99, "../../etc/passwd", [], {}, [[]], ["node", 0]]


def _any_value(document: Any, chance: random.Random) -> Any:
    value = document
    while isinstance(value, (dict, list)) and value and chance.random() < 0.8:
        value = chance.choice(list(value.values()) if isinstance(value, dict) else value)
    return value


def _mutate_archive(data: bytes, chance: random.Random) -> bytes:
    """A zip archive with one member changed, all checksums right again."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(changed, "w") as target:
        victim = chance.choice([*source.namelist(), *(name for name in source.namelist() if name.endswith("json"))])
        for name in source.namelist():
            content = source.read(name)
            if name == victim:
                as_json = name.endswith(".json") and chance.random() < 0.8
                content = _mutate_json(content, chance) if as_json else mutated(content, chance)
            target.writestr(name, content)
    return changed.getvalue()


@dataclass(frozen=True)
class Kind:
    """A kind of file: a sound one, how it is changed, and how it is read, from a path."""

    sound: Callable[[], bytes]
    mutate: Callable[[bytes, random.Random], bytes]
    read: Callable[[Path], Any]


def _either(*ways: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    return lambda data, chance: chance.choice(ways)(data, chance)


@cache
def _program() -> Any:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.register_buffer("state", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            self.state.add_(1)
            branch = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))
            return {"y": self.layer(branch).to(torch.float64) + self.state, "n": torch.zeros(x.shape[0] * 2)}

    torch.manual_seed(0)
    rows = torch.export.Dim("n", min=2, max=9)
    return torch.export.export(Net(), (torch.zeros(3, 4),), dynamic_shapes=({0: rows},))


@cache
def _interchange() -> tuple[bytes, bytes]:
    from rules_executorch.lowering import save_program

    with tempfile.TemporaryDirectory() as folder:
        graph, constants = Path(folder) / "graph", Path(folder) / "constants"
        save_program(_program(), graph, constants)
        return graph.read_bytes(), constants.read_bytes()


def _pte() -> bytes:
    from rules_executorch.lowering import to_edge

    return to_edge(_program()).to_executorch().buffer


def _ptd() -> bytes:
    from rules_executorch.lowering import ExecutorchBackendConfig, to_edge
    from rules_executorch.lowering.format.ptd import ptd_bytes

    program = to_edge(_program()).to_executorch(ExecutorchBackendConfig(external_constants=True))
    return ptd_bytes(program._emitted.external_data["_default_external_constant"])


def _pt2() -> bytes:
    import torch

    stream = io.BytesIO()
    torch.export.save(_program(), stream)
    return stream.getvalue()


def _read_pte(path: Path) -> None:
    from rules_executorch.lowering.format.inspect import describe
    from rules_executorch.lowering.format.read import read_pte

    describe(read_pte(path))


def _read_ptd(path: Path) -> None:
    from rules_executorch.lowering.format.ptd import read_ptd

    read_ptd(path)


def _read_pt2(path: Path) -> None:
    from rules_executorch.lowering import load_pt2

    load_pt2(path)


def _load(graph: Path, constants: Path) -> None:
    from rules_executorch.lowering import load_program

    program = load_program(graph, [constants])
    for tensor in (*program.state_dict.values(), *program.constants.values()):
        tensor.sum().item()  # so that every byte is read


def _read_edge(path: Path) -> None:
    constants = path.with_name("sound.constants")
    constants.write_bytes(_interchange()[1])
    _load(path, constants)


def _read_safetensors(path: Path) -> None:
    graph = path.with_name("sound.graph")
    graph.write_bytes(_interchange()[0])
    _load(graph, path)


KINDS = {
    "pte": Kind(_pte, mutated, _read_pte),
    "ptd": Kind(_ptd, mutated, _read_ptd),
    "pt2": Kind(_pt2, _either(mutated, _mutate_archive, _mutate_archive), _read_pt2),
    "edge": Kind(lambda: _interchange()[0], _either(mutated, _mutate_json, _mutate_json), _read_edge),
    "safetensors": Kind(lambda: _interchange()[1], mutated, _read_safetensors),
}


@dataclass
class Outcome:
    """How many files there were and were refused, the slowest read in seconds, and what went wrong, by number."""

    files: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: dict[int, str] = field(default_factory=dict)


def fuzz(name: str, count: int, seed: int = 0) -> Outcome:
    """Read `count` changed files of a kind, each refused in one line or read.

    The readers run in forked children, so that a crash or a hang (of 30 s) is one failure of one file.
    """
    kind, outcome = KINDS[name], Outcome()
    sound = kind.sound()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"changed.{name}"
        path.write_bytes(sound)
        kind.read(path)
        while outcome.files < count:
            _fuzz_in_child(kind, sound, path, range(outcome.files, count), seed, outcome)
    return outcome


def _fuzz_in_child(kind: Kind, sound: bytes, path: Path, numbers: range, seed: int, outcome: Outcome) -> None:
    """Go through files `numbers` in one child, as far as it lives."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as pipe:
                for number in numbers:
                    signal.alarm(30)
                    path.write_bytes(kind.mutate(sound, random.Random(f"{seed}/{number}")))
                    start = time.perf_counter()
                    said = _verdict(kind, path)
                    print(json.dumps([said, time.perf_counter() - start]), file=pipe, flush=True)
        except BaseException:  # a defect of the mutations: nothing of the parent's may run in its child
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        for line in pipe:
            said, seconds = json.loads(line)
            outcome.refused += said == "refused"
            if said not in ("refused", "read"):
                outcome.failures[outcome.files] = said
            outcome.slowest = max(outcome.slowest, seconds)
            outcome.files += 1
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        outcome.failures[outcome.files] = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        outcome.files += 1
    elif status != 0:
        raise RuntimeError(f"no file {outcome.files} of seed {seed} could be made")


def _verdict(kind: Kind, path: Path) -> str:
    from rules_executorch.lowering import InvalidFileError, LoweringError

    try:
        kind.read(path)
    except (InvalidFileError, LoweringError) as error:
        # What does not fit a model may be a list, with a line for each tensor.
        short = len(str(error)) < 2000 and (isinstance(error, LoweringError) or "\n" not in str(error))
        return "refused" if short else f"said {str(error)[:2000]!r}"
    except Exception as error:  # noqa: BLE001  (what is looked for)
        return f"{type(error).__name__}: {error}"[:2000]
    return "read"


def main(name: str, count: int = 10_000, seed: int = 0) -> int:
    """Exit status 1 if any file is neither read nor refused as it should be."""
    outcome = fuzz(name, count, seed)
    for number, failure in outcome.failures.items():
        print(f"file {number} of seed {seed}: {failure}")
    print(
        f"{name}: {outcome.files} files: {outcome.refused} refused, {len(outcome.failures)} failures, "
        f"slowest {outcome.slowest:.3f} s"
    )
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
