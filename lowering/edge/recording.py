"""What one operator is made of: its decomposition, run once on fake tensors and written down."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode, disable_fake_tensor_cache
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .aliasing import Handle
from .symbols import SYM_TYPES


@dataclass(frozen=True)
class Slot:
    """The index-th tensor of a recording: first the arguments' tensors, then those that steps make."""

    index: int


@dataclass(frozen=True)
class Step:
    """One operator call. `result` mirrors `val`, what the fake call returned, with a Slot per tensor."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    val: Any


@dataclass(frozen=True)
class Recording:
    """The calls that an operator comes to, with which of their tensors are its own results.

    One that `names_sizes` has symbols for sizes or numbers that data decide, which are others in each call.
    """

    steps: tuple[Step, ...]
    result: Any
    names_sizes: bool


def record(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], fake_mode: FakeTensorMode
) -> Recording | None:
    """Run `function` on fake tensors and write down the operators that it calls, one level deep.

    Autograd's dispatch keys are left out, so that an operator that is composed of others is seen
    as itself. None if `function` returns NotImplemented.
    """
    recorder = _Recorder()
    args, kwargs = recorder.argument_slots((args, kwargs))
    # Each signature is recorded once, and to look a call up by a key over symbols takes longer than to make it.
    with disable_fake_tensor_cache(fake_mode), fake_mode, torch._C._AutoDispatchBelowAutograd(), recorder:
        result = function(*args, **kwargs)
    if result is NotImplemented:
        return None
    known = _data_dependent((args, kwargs))
    named = any(_data_dependent(step.val) - known for step in recorder.steps)
    return Recording(tuple(recorder.steps), recorder.encode(result), named)


def _data_dependent(value: Any) -> set[sympy.Symbol]:
    """The symbols in `value`, numbers or sizes of tensors, that stand for what only a run would tell."""
    leaves = (leaf for leaf in tree_leaves(value) if isinstance(leaf, (torch.Tensor, *SYM_TYPES)))
    return set().union(*(free_unbacked_symbols(leaf) for leaf in leaves))


def signature(value: Any, tensors: dict[int, int]) -> Hashable:
    """A key that is equal for arguments on which a decomposition does the same.

    Tensors count by sizes, strides, offset and dtype, and by which of them are the same; symbolic
    sizes by their expressions; other values by type and value. `tensors` numbers those met so far.
    """
    if isinstance(value, Handle):
        return (tensors.setdefault(id(value), len(tensors)), signature(value.val, tensors))
    if isinstance(value, torch.Tensor):
        return (value.dtype, _ints(value.shape), _ints(value.stride()), _int(value.storage_offset()))
    if isinstance(value, (list, tuple)):
        return (type(value) is list, *(signature(item, tensors) for item in value))
    if isinstance(value, dict):
        return tuple((key, signature(item, tensors)) for key, item in value.items())
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return _int(value)
    return (type(value), repr(value))


def _ints(sizes: Any) -> tuple[Hashable, ...]:
    return tuple(_int(size) for size in sizes)


def _int(size: Any) -> Hashable:
    return size if isinstance(size, int) else size.node.expr


class _Recorder(TorchDispatchMode):
    """Collects steps. Tensors are known by identity, so each is kept alive until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._tensors: list[torch.Tensor] = []
        self._slots: dict[int, Slot] = {}

    def argument_slots(self, arguments: Any) -> Any:
        tree_map(lambda value: self._slot(value) if isinstance(value, torch.Tensor) else None, arguments)
        return arguments

    def encode(self, value: Any) -> Any:
        """`value` with Slots for tensors; a tensor that no step made is a constant, and stays."""
        return tree_map(lambda v: self._slots.get(id(v), v) if isinstance(v, torch.Tensor) else v, value)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.inplace_view in func.tags:
            self._freeze(args[0])
        encoded = self.encode(tuple(args)), self.encode(dict(kwargs))
        # Without PyTorch's Python kernels, some operators ask a symbolic size for its value.
        tensors = (value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor))
        symbolic = any(tensor._has_symbolic_sizes_strides for tensor in tensors)
        with enable_python_dispatcher() if symbolic else nullcontext():
            val = func(*args, **kwargs)
        if func.namespace == "prim":  # questions about a tensor, not computations
            return val
        if func._schema.is_mutable and func._schema.name.endswith("_") and val is not args[0]:
            val = args[0]
        result = tree_map(lambda v: self._slot(v) if isinstance(v, torch.Tensor) else v, val)
        self.steps.append(Step(func, *encoded, result, val))
        return val

    def _freeze(self, tensor: torch.Tensor) -> None:
        """Keep the sizes that `tensor` has now for the steps so far: the tensor is about to change them in place."""
        frozen = tensor.detach()
        for index, step in enumerate(self.steps):
            self.steps[index] = replace(step, val=tree_map(lambda v: frozen if v is tensor else v, step.val))

    def _slot(self, tensor: torch.Tensor) -> Slot:
        if id(tensor) not in self._slots:
            self._slots[id(tensor)] = Slot(len(self._tensors))
            self._tensors.append(tensor)
        return self._slots[id(tensor)]
