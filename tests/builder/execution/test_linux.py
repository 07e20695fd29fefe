"""Calls of the kernel that Python's library does not have."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, re
from rules_executorch.builder.execution import linux

def huge():
    return int(re.search(r"AnonHugePages: *([0-9]+)", open("/proc/self/smaps_rollup").read())[1])

data = bytearray(os.urandom(1 << 20) * 32)
same, before = bytes(data), huge()
linux.collapse_memory()
print(data == same, huge() - before)
child = os.fork()
if not child:
    data[12345] ^= 1
    os._exit(data == same)
print(os.waitpid(child, 0)[1] == 0, data == same)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux's")
def test_memory_in_huge_pages_is_the_same_memory() -> None:
    lines = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60).stdout
    same, gained, forked, kept = lines.split()
    assert (same, forked, kept) == ("True", "True", "True")
    # A kernel that cannot do it leaves all as it is.
    assert int(gained) >= 0
