"""Lowering again after an edit of one layer: how many partitions backends are asked for, and what that saves.

    python benchmarks/partitions.py [--model transformer48] [--backend xnnpack|reference]

Processor times of to_edge_transform_and_lower, in seconds, in one process: without a cache, with an empty one, with one that
knows all, and with one that knows all but the layer whose weights were edited.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import models  # noqa: E402
from rules_executorch.lowering import to_edge_transform_and_lower  # noqa: E402
from rules_executorch.lowering.delegation.preprocess_cache import FolderCache, caching  # noqa: E402

_PARTITIONERS = {"xnnpack": "XnnpackPartitioner", "reference": "ReferencePartitioner"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="transformer48")
    parser.add_argument("--backend", choices=_PARTITIONERS, default="xnnpack")
    options = parser.parse_args()
    module, inputs = models.make(options.model)
    backend = importlib.import_module(f"rules_executorch.backends.{options.backend}")
    partitioner = getattr(backend, _PARTITIONERS[options.backend])
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        cache = FolderCache(Path(folder, "known"), Path(folder, "new"))
        lower(module, inputs, partitioner, None)  # warms up
        print(f"no cache      {lower(module, inputs, partitioner, None)}")
        print(f"empty cache   {lower(module, inputs, partitioner, cache)}")
        print(f"same again    {lower(module, inputs, partitioner, cache)}")
        weights = list(module.parameters())
        weights[len(weights) // 2].mul_(1.5)
        print(f"one edited    {lower(module, inputs, partitioner, cache)}")


def lower(module: torch.nn.Module, inputs: tuple, partitioner: type, cache: FolderCache | None) -> str:
    """How long lowering took, and what the cache was good for."""
    program = torch.export.export(module, inputs)
    start = time.process_time()
    if cache is None:
        to_edge_transform_and_lower(program, partitioner=[partitioner()])
        return f"{time.process_time() - start:6.2f} s"
    with caching(cache) as tally:
        to_edge_transform_and_lower(program, partitioner=[partitioner()])
    return f"{time.process_time() - start:6.2f} s  {tally.preprocessed} preprocessed, {tally.cached} from the cache"


if __name__ == "__main__":
    main()
