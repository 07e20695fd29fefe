"""In which precision an operator computes, as the operators around it say."""

from __future__ import annotations

from enum import Enum

from torch.fx import Node

from .operators.quantized import is_dynamic, is_quantization


class Precision(Enum):
    """What a partitioner can be restricted to."""

    FP32 = "floats"
    STATIC_QUANT = "integers with scales known at build time"
    DYNAMIC_QUANT = "integers with scales chosen at run time"


def precision_of(node: Node) -> Precision:
    """That of the activations that it reads, or of what its result is quantized to; weights have their reader's."""
    if is_quantization(node):
        if is_dynamic(node):
            return Precision.DYNAMIC_QUANT
        if _is_activation(node) or not node.users:
            return Precision.STATIC_QUANT
        node = next(iter(node.users))
    operands = [operand for operand in node.all_input_nodes if is_quantization(operand) and _is_activation(operand)]
    if operands:
        return Precision.DYNAMIC_QUANT if any(map(is_dynamic, operands)) else Precision.STATIC_QUANT
    quantized = bool(node.users) and all(is_quantization(user) and not is_dynamic(user) for user in node.users)
    return Precision.STATIC_QUANT if quantized else Precision.FP32


def _is_activation(node: Node) -> bool:
    """Whether it quantizes, or dequantizes what was quantized, rather than a constant."""
    source = node.args[0]
    return not node.meta["val"].dtype.is_floating_point or (isinstance(source, Node) and is_quantization(source))
