"""What goes into .ptd files beside the program: external constants, and named data with a file's tag."""

from __future__ import annotations

from ..delegation.named_data import content_key, tensor_bytes
from ..format.container import Data
from ..format.ptd import TensorData, TensorEntry, TensorLayout
from .pools import Pools


def external_data(pools: Pools) -> dict[str, TensorData]:
    """The .ptd files by tag. Equal contents are stored once in each."""
    named = pools.named_data.output()
    files = {}
    for tag in sorted(pools.external.tensors.keys() | named.external_data.keys()):
        buffers: list[Data] = []
        alignments: list[int] = []
        index: dict[tuple[int, bytes], int] = {}
        entries = {}

        def intern(data: object, alignment: int) -> int:
            position = index.setdefault(content_key(data), len(buffers))
            if position == len(buffers):
                buffers.append(tensor_bytes(data))
                alignments.append(alignment)
            return position

        for key, tensor in pools.external.tensors.get(tag, {}).items():
            layout = TensorLayout(int(tensor.scalar_type), tensor.sizes, tensor.dim_order)
            entries[key] = TensorEntry(intern(tensor.data, 1), layout)
        for key, entry in named.external_data.get(tag, {}).items():
            entries[key] = TensorEntry(intern(named.buffers[entry.buffer_index], entry.alignment))
        files[tag] = TensorData(tuple(buffers), entries, tuple(alignments))
    return files
