"""Mutated files. As a command: reads any number of mutations of a .pte or .ptd and reports what went wrong.

    python -m support.fuzz FILE [COUNT [SEED]]        (in the folder tests/)
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """`count` variants of `data`: flipped bits, hostile numbers, moved, cut and repeated pieces."""
    chance = random.Random(seed)
    for _ in range(count):
        mutated = bytearray(data)
        for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
            _mutate(mutated, chance)
        yield bytes(mutated)


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


def main(path: str, count: int = 10_000, seed: int = 0) -> int:
    """Read `count` mutations; the exit code is 1 if any is not read or refused as it should be."""
    from rules_executorch.lowering.errors import InvalidFileError
    from rules_executorch.lowering.format.inspect import describe
    from rules_executorch.lowering.format.ptd import read_ptd
    from rules_executorch.lowering.format.read import read_pte

    data = Path(path).read_bytes()
    refused = failures = 0
    slowest = 0.0
    for mutated in mutations(data, count, seed):
        start = time.perf_counter()
        try:
            read_ptd(mutated) if path.endswith(".ptd") else describe(read_pte(mutated))
        except InvalidFileError as error:
            refused += 1
            failures += "\n" in str(error)
        except Exception as error:  # noqa: BLE001  (what is looked for)
            failures += 1
            print(f"{type(error).__name__}: {error}")
        slowest = max(slowest, time.perf_counter() - start)
    print(f"{count} files: {refused} refused, {failures} failures, slowest {slowest:.3f} s")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
