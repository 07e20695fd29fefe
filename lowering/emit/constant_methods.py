"""Methods without inputs that return values known when the program is made."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import LoweringError
from ..format import schema
from .containers import container_of
from .dtypes import scalar_type
from .pools import Pools, dense
from .shapes import dim_order


def emit_constant_method(name: str, value: Any, pools: Pools) -> schema.ExecutionPlan:
    """A plan that returns the leaves of `value`: numbers, texts, None, dtypes, layouts and tensors.

    Raises:
        LoweringError: a leaf is of another type.
    """
    leaves, container = container_of(value)
    values = tuple(_leaf(name, leaf, pools) for leaf in leaves)
    return schema.ExecutionPlan(
        name=name,
        container_meta_type=container,
        values=values,
        inputs=(),
        outputs=tuple(range(len(values))),
        chains=(schema.Chain(),),
        operators=(),
        delegates=(),
        non_const_buffer_sizes=(0,),
    )


def _leaf(name: str, leaf: Any, pools: Pools) -> schema.Value:
    if leaf is None:
        return schema.Null()
    if isinstance(leaf, bool):
        return schema.Bool(leaf)
    if isinstance(leaf, int):
        return schema.Int(leaf)
    if isinstance(leaf, float):
        return schema.Double(leaf)
    if isinstance(leaf, str):
        return schema.Text(leaf)
    if isinstance(leaf, torch.dtype):
        return schema.Int(int(scalar_type(leaf)))
    if isinstance(leaf, torch.layout):
        return schema.Int(0)
    if isinstance(leaf, torch.Tensor):
        order = dim_order(leaf)
        return schema.Tensor(
            scalar_type=int(scalar_type(leaf.dtype)),
            sizes=tuple(leaf.shape),
            dim_order=order,
            data_buffer_idx=pools.constants.add(dense(leaf, order)),
        )
    raise LoweringError(
        f"constant method {name!r} returns a {type(leaf).__name__}, which a program cannot hold",
        remedies=["return numbers, strings, None, dtypes or tensors, in tuples, lists or dicts"],
    )
