"""Batch normalisation after a convolution becomes part of the convolution's weights."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from .parts import EdgeParts

aten = torch.ops.aten


def fuse_batch_norm(parts: EdgeParts, fake_mode: FakeTensorMode) -> None:
    """Rewrite batch_norm(convolution(x, w, b)) to a convolution with other weights, all of them known constants.

    The new weights are written as operators on the old ones, for constant folding to compute.
    """
    known = parts.constant_placeholders()
    for norm in parts.graph.find_nodes(
        op="call_function", target=aten._native_batch_norm_legit_no_training.default
    ):
        convolution, *constants = norm.args[:5]
        if _is_fusible(norm, convolution) and all(
            c is None or c in known for c in (*constants, *convolution.args[1:3])
        ):
            _fuse(_Writer(parts.graph, norm, fake_mode), norm, convolution)


def _is_fusible(norm: Node, convolution: Node) -> bool:
    if convolution.target is not aten.convolution.default or len(convolution.users) != 1:
        return False
    transposed, groups = convolution.args[6], convolution.args[8]
    only_result = all(user.target is operator.getitem and user.args[1] == 0 for user in norm.users)
    same_dtype = convolution.meta["val"].dtype == norm.meta["val"][0].dtype
    return only_result and same_dtype and not (transposed and groups != 1)


class _Writer:
    """Appends operators before a node, with their values' metadata."""

    def __init__(self, graph: Graph, before: Node, fake_mode: FakeTensorMode):
        self._graph, self._before, self._fake_mode = graph, before, fake_mode

    def __call__(self, target: Any, *args: Any) -> Node:
        with self._graph.inserting_before(self._before):
            node = self._graph.call_function(target, args)
        with self._fake_mode:
            val = target(*torch.fx.map_arg(args, lambda n: n.meta["val"]))
        node.meta.update(self._before.meta, val=val)
        return node


def _fuse(write: _Writer, norm: Node, convolution: Node) -> None:
    gamma, beta, mean, variance = norm.args[1:5]
    source, weight, bias, *settings = convolution.args
    scale = write(aten.rsqrt.default, write(aten.add.Scalar, variance, norm.args[6]))
    if gamma is not None:
        scale = write(aten.mul.Tensor, scale, gamma)
    # The output channels are dimension 0 of the weight, or 1 where the convolution is transposed.
    shape = [1] * weight.meta["val"].dim()
    shape[1 if convolution.args[6] else 0] = -1
    new_weight = write(aten.mul.Tensor, weight, write(aten.view_copy.default, scale, shape))
    shift = write(aten.neg.default, mean) if bias is None else write(aten.sub.Tensor, bias, mean)
    new_bias = write(aten.mul.Tensor, shift, scale)
    if beta is not None:
        new_bias = write(aten.add.Tensor, new_bias, beta)
    fused = write(aten.convolution.default, source, new_weight, new_bias, *settings)
    for user in list(norm.users):
        fused.meta.update({key: value for key, value in user.meta.items() if key != "debug_handle"})
        user.replace_all_uses_with(fused)
