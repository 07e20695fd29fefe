"""Whether a file's times can still hide a change: clocks tick, and a change within the same tick leaves no trace."""

from __future__ import annotations

# A file system that counts in whole seconds shows by zeros; others are as fine as the kernel's clock tick.
_COARSE_NS = 2_000_000_000
_FINE_NS = 20_000_000


def settled(modified_ns: int, changed_ns: int, now_ns: int) -> bool:
    """Whether a change after `now_ns` must show in a file's times: its last one lies further back than their granularity.

    Times are in nanoseconds since the epoch.
    """
    coarse = changed_ns % 1_000_000_000 == 0 or modified_ns % 1_000_000_000 == 0
    return now_ns - max(modified_ns, changed_ns) > (_COARSE_NS if coarse else _FINE_NS)
