"""`python -m rules_executorch.lowering`: the engine's face to the builder, and to people without one."""

from __future__ import annotations

import sys

from .command.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
