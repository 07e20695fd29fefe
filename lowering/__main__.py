"""`python -m rules_executorch.lowering`: the engine's face to the builder, and to people without one."""

from __future__ import annotations

import gc
import sys

from .command.frames import call_with_room
from .command.main import main

if __name__ == "__main__":
    # Graphs are many objects that live to the end; looking through them again and again for cycles finds few.
    gc.set_threshold(50_000, 20, 20)
    sys.exit(call_with_room(main, sys.argv[1:]))
