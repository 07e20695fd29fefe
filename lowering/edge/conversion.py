"""One walk over a graph that torch.export made, appending its functional, decomposed form to a new graph.

Nothing is traced as a whole. Each operator is kept, made functional, or replaced by the recording of
its decomposition, whose steps are walked in turn; a recording is made once per distinct signature.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from ..errors import LoweringError
from ..operators import OperatorSet
from ..uncompiled import uncompiled_graph_module
from .aliasing import Handle, UnsupportedAliasing, view_inverse
from .decompositions import decompositions_of, torch_decomposition
from .recording import Recording, Slot, record, signature
from .schemas import (
    copy_variant,
    functional_variant,
    is_composite,
    is_view,
    mutated_arguments,
    returns_alias,
    view_variant,
)
from .symbols import SYM_TYPES, Symbols

aten = torch.ops.aten

# Metadata that every node made from a node of the exported program inherits from it.
_INHERITED = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node")

# Modes of the exporting process, and facts that were checked there: nothing to run on a device.
_DROPPED_PREFIXES = ("aten::_assert", "aten::sym_constrain", "aten::_functional_assert", "aten::_functional_sym")

# Higher-order operators that only mark a region: positions of its graph, and of the first operand.
_REGIONS = {"wrap_with_set_grad_enabled": (1, 2), "wrap_with_autocast": (4, 5), "invoke_subgraph": (0, 2)}


@dataclass
class Context:
    """What the walks over a program and over the bodies within it have in common."""

    operators: OperatorSet
    preserve_ops: frozenset[OpOverload]
    keep: Callable[[Node], bool] | None
    fake_mode: FakeTensorMode
    debug_handles: Iterator[int]  # those that no node has yet
    recordings: dict[Any, Recording | None] = field(default_factory=dict)


class Conversion:
    """The new graph as far as it is built, with the tensors that it knows."""

    def __init__(self, context: Context, owner: torch.nn.Module):
        self.graph = Graph()
        self.modules: dict[str, torch.nn.Module] = {}
        self.placeholders: dict[str, Handle] = {}
        self.context = context
        self._owner = owner
        self._symbols = Symbols(self.graph, context.fake_mode.shape_env)
        self._meta: dict[str, Any] = {}
        self._source: Node | None = None

    # -- The walk -----------------------------------------------------------------------------

    def run(self, source: Graph, bound: Sequence[Any] | None = None) -> Any:
        """Convert `source`. Its placeholders become placeholders, or stand for `bound` where given.

        Returns what its output node returns, with Handles for tensors.
        """
        values: dict[Node, Any] = {}
        placeholders = iter(bound) if bound is not None else None
        for node in source.nodes:
            if node.op == "placeholder":
                values[node] = self._placeholder(node) if placeholders is None else next(placeholders)
            elif node.op == "get_attr":
                values[node] = self._attribute(node)
            elif node.op == "output":
                return _with_values(values, node.args[0])
            else:
                self._source = node
                self._meta = {key: node.meta[key] for key in _INHERITED if key in node.meta}
                self._meta["debug_handle"] = node.meta.get("debug_handle") or next(self.context.debug_handles)
                args, kwargs = _with_values(values, (node.args, node.kwargs))
                values[node] = self._call_node(node, tuple(args), dict(kwargs))
        return None

    def _placeholder(self, source: Node) -> Any:
        node = self.graph.placeholder(source.name)
        node.name = source.name  # exactly: the signature names it, and fx avoids names such as "input"
        node.meta.update(source.meta)
        val = source.meta.get("val")
        self._symbols.learn(node, val)
        if isinstance(val, torch.Tensor):
            self.placeholders[source.name] = Handle(node, val)
            return self.placeholders[source.name]
        return val if isinstance(val, SYM_TYPES) else _Opaque(node) if val is not None else None

    def _attribute(self, source: Node) -> Any:
        value = self._owner
        for name in source.target.split("."):
            value = getattr(value, name)
        if isinstance(value, torch.Tensor):
            node = self.graph.get_attr(source.target)
            node.meta.update(source.meta)
            return Handle(node, source.meta["val"])
        return _Module(source.target, value) if isinstance(value, torch.nn.Module) else value

    def _call_node(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, val = node.target, node.meta.get("val")
        if isinstance(target, OpOverload):
            try:
                return self.call_overload(target, args, kwargs, val)
            except UnsupportedAliasing as error:
                error.node = error.node or node
                raise
        if isinstance(target, HigherOrderOperator):
            return self._higher_order(target, args, kwargs, val)
        if target is operator.getitem and isinstance(args[0], (list, tuple)):
            return args[0][args[1]]
        # Arithmetic on sizes: the expression says it all, and is computed where it is needed.
        return val

    # -- Operators ----------------------------------------------------------------------------

    def call(self, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Apply an operator, or a function of operators, to Handles and numbers."""
        recording = self._recording(op, args, kwargs)
        assert recording is not None
        return self._play(recording, args, kwargs)

    def call_overload(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        """The result of one operator, of which `val` is the fake result: Handles in its structure."""
        name = op._schema.name
        if name.startswith(_DROPPED_PREFIXES):
            return None
        if name.startswith("aten::sym_"):
            return val  # a size: its expression is known, and computed where it is needed
        if op._schema.is_mutable:
            return self._mutate(op, args, kwargs, val)
        if is_view(op):
            return self._view(op, args, kwargs, val)
        if op in self.context.preserve_ops and not returns_alias(op):
            kept = self._keep(op, args, kwargs, val)
            if kept is not None:
                return kept
        for function in self._decompositions(op):
            recording = self._recording(function, args, kwargs)
            if recording is not None:
                result = self._matched(self._play(recording, args, kwargs), val)
                return result if is_composite(op) else _fresh(result, args)
        return self._emit(op, args, kwargs, val)

    def _decompositions(self, op: OpOverload) -> Iterator[Callable[..., Any]]:
        """What to try, in order: ours first, then PyTorch's if the runtime cannot run `op` as it is."""
        yield from decompositions_of(op)
        if self.context.operators.kernel(op) is None:
            function = torch_decomposition(op)
            if function is not None:
                yield function

    def _keep(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        """`op` as it is, or None where the filter refuses this node."""
        node = self._node(op, self._argument(args), self._argument(kwargs), val)
        if self.context.keep is None or self.context.keep(node):
            return self._results(node, val)
        self.graph.erase_node(node)
        return None

    def _emit(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        return self._results(self._node(op, self._argument(args), self._argument(kwargs), val), val)

    def _node(self, target: Any, args: Any, kwargs: Any, val: Any) -> Node:
        node = self.graph.call_function(target, args, kwargs)
        node.meta.update(self._meta, val=val)
        self._symbols.learn(node, val)
        return node

    def _results(self, node: Node, val: Any) -> Any:
        if isinstance(val, torch.Tensor):
            return Handle(node, val)
        if isinstance(val, (list, tuple)):
            items = (None if v is None else self._node(operator.getitem, (node, i), {}, v) for i, v in enumerate(val))
            return tuple(None if item is None else self._results(item, v) for item, v in zip(items, val))
        return val

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Handle):
            return value.node()
        if isinstance(value, _Opaque):
            return value.node
        if isinstance(value, (list, tuple)):
            return type(value)([self._argument(item) for item in value])
        if isinstance(value, dict):
            return {key: self._argument(item) for key, item in value.items()}
        return self._symbols.argument(value)

    # -- Recordings ---------------------------------------------------------------------------

    def _recording(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Recording | None:
        """What `function` does with such arguments; None where it declines."""
        recordings = self.context.recordings
        key = (function, signature((args, kwargs), {}))
        if key in recordings:
            return recordings[key]
        recording = self._record(function, args, kwargs)
        if recording is None or not recording.names_sizes:
            recordings[key] = recording
        return recording

    def _record(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Recording | None:
        fake_mode = self.context.fake_mode
        fakes = _distinct_fakes(_handles((args, kwargs)), fake_mode)
        fake_args, fake_kwargs = tree_map(lambda v: fakes[id(v)] if isinstance(v, Handle) else v, (args, kwargs))
        guards = len(fake_mode.shape_env.guards) if fake_mode.shape_env else 0
        recording = record(function, fake_args, fake_kwargs, fake_mode)
        if recording is not None and any(step.op.namespace == "prims" for step in recording.steps):
            return None  # PyTorch's own primitives lead no further
        for guard in fake_mode.shape_env.guards[guards:] if fake_mode.shape_env else ():
            if isinstance(guard.expr, sympy.Eq):  # true of the example inputs, and of no others
                raise LoweringError(
                    f"the decomposition of this operator holds only for sizes with {guard.expr.lhs} = {guard.expr.rhs}",
                    node=self._source,
                    remedies=["make that dimension static", "write the model without the operator, or delegate it"],
                )
        return recording

    def _play(self, recording: Recording, args: Any, kwargs: Any) -> Any:
        """Append what was recorded, applied to `args` and `kwargs`; the results that it names."""
        tensors = dict(enumerate(_handles((args, kwargs))))

        def resolve(value: Any) -> Any:
            return tree_map(lambda v: self._resolved(tensors, v), value)

        for step in recording.steps:
            result = self.call_overload(step.op, resolve(step.args), resolve(step.kwargs), step.val)
            _assign(tensors, step.result, result)
        return resolve(recording.result)

    def _resolved(self, tensors: dict[int, Handle], value: Any) -> Any:
        if isinstance(value, Slot):
            return tensors[value.index]
        if isinstance(value, torch.Tensor):  # a constant of the decomposition's own
            return self.call(_scalar_tensor, value.item(), value.dtype)
        return value

    def _matched(self, result: Any, val: Any) -> Any:
        """`result` under the sizes that its users know: a size that data decide is named anew in each fake call."""
        if isinstance(val, SYM_TYPES):
            node = self._symbols.argument(result)
            if isinstance(node, Node):
                node.meta["val"] = val
                self._symbols.learn(node, val)
            return val
        for handle, expected in zip(tree_leaves(result), tree_leaves(val)):
            if isinstance(handle, Handle) and isinstance(expected, torch.Tensor) and has_symbols(expected):
                self._symbols.learn(handle.node(), expected)
        return result

    # -- Aliases ------------------------------------------------------------------------------

    def _view(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        parent, *rest = args
        if isinstance(val, torch.Tensor) and signature(parent.val, {}) == signature(val, {}):
            return parent
        copy = copy_variant(op)
        if copy is None:
            raise UnsupportedAliasing(op)

        def take(source: Handle) -> Any:
            return self.call_overload(copy, (source, *rest), kwargs, val)

        def view(taken: Handle, index: int | None, take_one: Callable[[Handle], Handle]) -> Handle:
            inverse = view_inverse(op, tuple(rest), index, self.call)
            return Handle(taken.node(), taken.val, parent, take_one, inverse)

        taken = take(parent)
        if isinstance(taken, Handle):
            taken.val = val
            return view(taken, None, take)
        return tuple(view(item, i, lambda source, i=i: take(source)[i]) for i, item in enumerate(taken))

    def _mutate(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        if torch.Tag.inplace_view in op.tags:
            return self._reshape_in_place(op, args, kwargs, val)
        functional = functional_variant(op)
        if functional is None:
            raise UnsupportedAliasing(op)
        values = self._written(op, functional, args, kwargs)
        positions = mutated_arguments(op)
        for position, value in zip(positions, values[-len(positions) :]):
            target = args[position]
            target.write(self.call(_as_written, value, target))
        if any(result.alias_info for result in op._schema.returns):
            return args[positions[0]]
        fresh = values[: -len(positions)]
        return fresh[0] if isinstance(val, torch.Tensor) else fresh

    def _reshape_in_place(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Handle:
        """A tensor that takes other sizes on the same memory, such as by `unsqueeze_`: it becomes a view of itself."""
        view = view_variant(op)
        if view is None:
            raise UnsupportedAliasing(op)
        target: Handle = args[0]
        target.become(self.call_overload(view, (target.copy(), *args[1:]), kwargs, val))
        return target

    def _written(self, op: OpOverload, functional: OpOverload, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The results of `functional`: those of `op`, then what it writes."""
        if op is aten.copy_.default:
            return (args[1],)
        result = self.call(functional, *args, **kwargs)
        return (result,) if isinstance(result, Handle) else tuple(result)

    # -- Control flow -------------------------------------------------------------------------

    def _higher_order(self, op: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Any:
        region = _REGIONS.get(op.__name__)
        if region is not None:
            if op.__name__ == "wrap_with_autocast" and args[2]:
                raise UnsupportedAliasing(op)  # the casts that autocast inserts are PyTorch's to insert
            body, operands = region
            return self._inline(args[body], args[operands:])
        return self._results(self._node(op, self._bodies(args), self._bodies(kwargs), val), val)

    def _inline(self, body: _Module, operands: Sequence[Any]) -> Any:
        meta, owner = self._meta, self._owner
        self._owner = body.module
        result = self.run(body.module.graph, operands)
        self._meta, self._owner = meta, owner
        return result

    def _bodies(self, value: Any) -> Any:
        """`value` as a node's argument, with the graphs in it converted."""
        if isinstance(value, _Module):
            module = value.module
            self.modules[value.name] = convert_body(self.context, module) if isinstance(module, GraphModule) else module
            return self.graph.get_attr(value.name)
        if isinstance(value, (list, tuple)):
            return type(value)([self._bodies(item) for item in value])
        if isinstance(value, dict):
            return {key: self._bodies(item) for key, item in value.items()}
        return self._argument(value)

    def finish(self, result: Any) -> None:
        """End the graph with `result`: Handles and numbers, in lists and tuples."""
        self._meta = {}
        self.graph.output(self._argument(result))


def convert_body(context: Context, module: GraphModule) -> GraphModule:
    """The converted body of a loop or branch."""
    conversion = Conversion(context, module)
    conversion.finish(conversion.run(module.graph))
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return uncompiled_graph_module({**tensors, **conversion.modules}, conversion.graph)


def has_symbols(tensor: torch.Tensor) -> bool:
    """Whether a size of the tensor is known only at run time."""
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


@dataclass(frozen=True)
class _Module:
    """A module that the graph refers to by name: a body, or what a backend put there."""

    name: str
    module: Any


@dataclass(frozen=True)
class _Opaque:
    """A placeholder that is neither tensor nor symbolic number."""

    node: Node


def _scalar_tensor(value: Any, dtype: torch.dtype) -> torch.Tensor:
    return aten.full.default([], value, dtype=dtype)


def _as_written(value: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`value` in the sizes and dtype of what it is written to."""
    if value.dtype != target.dtype:
        value = aten._to_copy.default(value, dtype=target.dtype)
    return value if value.shape == target.shape else aten.expand.default(value, target.shape)


def _fresh(result: Any, arguments: Any) -> Any:
    """`result` in storage of its own: of an operator that PyTorch says copies, by a decomposition that did not."""
    taken = {id(argument.storage) for argument in _handles(arguments)}

    def fresh(value: Any) -> Any:
        return Handle(value.node(), value.val) if isinstance(value, Handle) and id(value.storage) in taken else value

    return tree_map(fresh, result)


def _with_values(values: dict[Node, Any], arguments: Any) -> Any:
    if isinstance(arguments, Node):
        return values[arguments]
    if isinstance(arguments, (list, tuple)):
        return [_with_values(values, item) for item in arguments]
    if isinstance(arguments, dict):
        return {key: _with_values(values, item) for key, item in arguments.items()}
    return arguments


def _handles(arguments: Any) -> list[Handle]:
    """The distinct Handles among arguments, in the order in which a recording numbers them."""
    return list({id(leaf): leaf for leaf in tree_leaves(arguments) if isinstance(leaf, Handle)}.values())


def _distinct_fakes(handles: Sequence[Handle], fake_mode: FakeTensorMode) -> dict[int, torch.Tensor]:
    """A fake tensor for each Handle, by its id. Handles may share one, a recording tells tensors apart by it."""
    used: set[int] = set()
    fakes = {}
    for handle in handles:
        val = handle.val
        if id(val) in used:
            with fake_mode:
                val = torch.empty_strided(val.shape, val.stride(), dtype=val.dtype, device=val.device)
        used.add(id(val))
        fakes[id(handle)] = val
    return fakes


def _assign(tensors: dict[int, Handle], slots: Any, result: Any) -> None:
    if isinstance(slots, Slot):
        tensors[slots.index] = result
    elif isinstance(slots, (list, tuple)) and result is not None:
        for slot, item in zip(slots, result):
            _assign(tensors, slot, item)
