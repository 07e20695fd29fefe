"""What kernels the target runtime has, and how ATen's functional operators map to them."""

from .operator_set import OperatorSet, llm, named_operator_set, quantized, stock
from .out_variant import out_variant
from .refusals import refusal

__all__ = ["OperatorSet", "llm", "named_operator_set", "out_variant", "quantized", "refusal", "stock"]
