"""Says to torchao's pt2e flow what XNNPACK computes with integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver, PlaceholderObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten

_ANNOTATION = "quantization_annotation"
_EPS = 2**-12  # no scale is smaller, so that ratios of scales stay within what XNNPACK's kernels have

# Products of an activation and a weight, and along which dimension of the weight its outputs are.
_PRODUCTS = {
    aten.linear.default: 0,
    aten.conv1d.default: 0,
    aten.conv2d.default: 0,
    aten.conv1d.padding: 0,
    aten.conv2d.padding: 0,
    aten.conv_transpose2d.input: 1,
}
_DYNAMIC_PRODUCTS = frozenset(
    {aten.linear.default, aten.conv1d.default, aten.conv2d.default, aten.conv1d.padding, aten.conv2d.padding}
)  # fmt: skip
_BINARY = frozenset(
    {aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor, aten.mul.Tensor, aten.mul_.Tensor}
)  # fmt: skip
_CLAMPS = frozenset(
    {aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default, aten.hardtanh.default,
     aten.hardtanh_.default, aten.clamp.default, aten.clamp_.default, aten.clamp_min.default}
)  # fmt: skip
# A scale of their own for what comes out: their results are other numbers.
_RESCALING = frozenset(
    {aten.adaptive_avg_pool2d.default, aten.avg_pool2d.default, aten.mean.dim, aten.sigmoid.default,
     aten.tanh.default, aten.hardswish.default, aten.hardswish_.default, aten.elu.default, aten.leaky_relu.default,
     aten.leaky_relu_.default}
)  # fmt: skip
# The scale of what goes in: their results are numbers from there.
_PASSING = frozenset(
    {aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.unflatten.int, aten.permute.default,
     aten.transpose.int, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.slice.Tensor,
     aten.select.int, aten.dropout.default, aten.clone.default, aten.contiguous.default, aten.max_pool2d.default,
     aten.upsample_bilinear2d.vec}
) | _CLAMPS  # fmt: skip


@dataclass(frozen=True)
class XnnpackQuantizationConfig:
    """How to quantize to int8.

    Weights have a scale per output channel, or, without `per_channel`, one for all. Scales of
    activations are found by calibration, or, if `dynamic`, chosen at run time.
    """

    per_channel: bool = True
    dynamic: bool = False


class XnnpackQuantizer(Quantizer):
    """Quantizes linear layers and convolutions, and, with scales known from calibration, what is between them.

    Statically, activations are int8 with one scale per tensor: the operands and results of products,
    sums and pools, and of what only moves numbers around between these. Dynamically, only the operands
    of products are. Weights are int8 around zero. `accepts` may leave nodes as they are.
    """

    def __init__(
        self,
        config: XnnpackQuantizationConfig = XnnpackQuantizationConfig(),
        accepts: Callable[[Node], bool] | None = None,
    ):
        super().__init__()
        self._config = config
        self._accepts = accepts or (lambda node: True)
        self._activation = _dynamic_activation() if config.dynamic else _static_activation()

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate every node that XNNPACK computes with integers; those that other quantizers took stay theirs."""
        for node in model.graph.nodes:
            if node.op == "call_function" and _ANNOTATION not in node.meta and self._accepts(node):
                if node.target in (_DYNAMIC_PRODUCTS if self._config.dynamic else _PRODUCTS):
                    self._annotate_product(node)
                elif not self._config.dynamic:
                    self._annotate_between(node)
        return model

    def validate(self, model: GraphModule) -> None:
        """Every annotation is one that XNNPACK has."""

    def _annotate_product(self, node: Node) -> None:
        x, weight = node.args[:2]
        if not (_is_float(x) and _is_float(node) and isinstance(weight, Node) and weight.op == "get_attr"):
            return
        if self._config.dynamic and node.target is not aten.linear.default and _argument(node, 6, 1) != 1:
            return  # XNNPACK has no dynamic convolution of groups
        specs = {x: self._activation, weight: self._weight(_PRODUCTS[node.target])}
        if self._config.dynamic:
            _annotate(node, specs)
        else:
            self._annotate_with_clamp(node, specs)

    def _annotate_between(self, node: Node) -> None:
        if not _is_float(node):
            return
        x = node.args[0] if node.args else None
        if node.target in _BINARY:
            if all(_is_float(operand) and operand.op != "get_attr" for operand in node.args[:2]):
                self._annotate_with_clamp(node, dict.fromkeys(node.args[:2], self._activation))
        elif node.target is aten.cat.default:
            self._annotate_cat(node)
        elif node.target in _RESCALING and _is_integer(x):
            _annotate(node, {x: self._activation}, self._activation)
        elif node.target in _PASSING and _is_integer(x):
            _annotate(node, {x: SharedQuantizationSpec(x)}, SharedQuantizationSpec((x, node)))

    def _annotate_with_clamp(self, node: Node, specs: dict[Any, Any]) -> None:
        """The scale is that of the result; of the clamp after it, where that is all that uses it."""
        (user, *others) = node.users
        if not others and user.target in _CLAMPS and _ANNOTATION not in user.meta and self._accepts(user):
            _annotate(node, specs)
            _annotate(user, {}, self._activation)
        else:
            _annotate(node, specs, self._activation)

    def _annotate_cat(self, node: Node) -> None:
        first, *others = node.args[0]
        if all(_is_integer(x) for x in (first, *others)):
            shared = SharedQuantizationSpec((first, node))
            _annotate(node, {**dict.fromkeys(others, shared), first: self._activation}, shared)

    def _weight(self, dim: int) -> QuantizationSpec:
        if not self._config.per_channel:
            observer = MinMaxObserver.with_args(eps=_EPS)
            return QuantizationSpec(torch.int8, observer, -127, 127, torch.per_tensor_symmetric)
        observer = PerChannelMinMaxObserver.with_args(eps=_EPS)
        return QuantizationSpec(torch.int8, observer, -127, 127, torch.per_channel_symmetric, ch_axis=dim)


def _static_activation() -> QuantizationSpec:
    observer = HistogramObserver.with_args(eps=_EPS)
    return QuantizationSpec(torch.int8, observer, -128, 127, torch.per_tensor_affine)


def _dynamic_activation() -> QuantizationSpec:
    observer = PlaceholderObserver.with_args(eps=_EPS)
    return QuantizationSpec(torch.int8, observer, -128, 127, torch.per_tensor_affine, is_dynamic=True)


def _annotate(node: Node, inputs: dict[Any, Any], output: Any = None) -> None:
    node.meta[_ANNOTATION] = QuantizationAnnotation(inputs, output, _annotated=True)


def _is_integer(node: Any) -> bool:
    """Whether a node's result is quantized already."""
    annotation = node.meta.get(_ANNOTATION) if isinstance(node, Node) else None
    return annotation is not None and annotation.output_qspec is not None


def _is_float(node: Any) -> bool:
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32


def _argument(node: Node, position: int, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else default
