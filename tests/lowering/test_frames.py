"""No call of a deep Python program waits for memory from the system, however deep it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Prints the most page faults that a loop of calls has at any depth.
PROGRAM = """
import resource, sys
from rules_executorch.lowering.command.frames import call_with_room

def leaf():
    return 1

# Larger than a frame of loop_at, so that at some depth the one fits and the other does not.
leaf.__code__ = leaf.__code__.replace(co_stacksize=100)

def loop_at(depth):
    if depth:
        return loop_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        leaf()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def most():
    return max(map(loop_at, range(800)))

print(call_with_room(most) if sys.argv[1] == "room" else most())
"""


def most_faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True).stdout)


def test_no_depth_is_slow() -> None:
    assert most_faults("room") < 100


@pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)), reason="frames are kept in another way")
def test_without_room_some_depth_is_slow() -> None:
    assert most_faults("none") >= 200
